/*
 * dcbnl.so gives one network device data center bridging (DCB), which lldpad requires of a device
 * before it speaks DCBX there. It is preloaded into lldpad (ld.so(8), LD_PRELOAD).
 *
 * The kernel refuses DCB requests for a device whose driver has no dcbnl_ops, such as veth. So
 * this library takes these requests out of send(2), sendto(2) and sendmsg(2), and answers them as
 * net/dcb/dcbnl.c does for a driver with eight traffic classes. It sends the answer to the
 * requester's socket through a netlink socket of its own, so receiving needs no change.
 *
 * DCB_DEVICE names the device. DCB_STATE is a file: after each change, it has the settings of the
 * device as JSON.
 *
 * Messages and attributes: linux/dcbnl.h, linux/rtnetlink.h, linux/netlink.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define CLASSES IEEE_8021QAZ_MAX_TCS
#define MAX_APPS 64

/* The settings of the device. lldpad has one thread, so they need no lock. */
static struct {
	__u8 mode; /* DCB_CAP_DCBX_* */
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct dcb_app apps[MAX_APPS];
	int app_count;
} device = {
	.mode = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_VER_CEE,
	.ets = {.ets_cap = CLASSES},
	.pfc = {.pfc_cap = CLASSES},
};

/* fail ends the process: a test must not run with less than it believes. */
static void fail(const char *what)
{
	fprintf(stderr, "dcbnl.so: %s: %s\n", what, strerror(errno));
	abort();
}

static void write_list(FILE *f, const char *name, const __u8 *list)
{
	fprintf(f, "\"%s\": [", name);
	for (int i = 0; i < CLASSES; i++)
		fprintf(f, "%s%d", i ? ", " : "", list[i]);
	fprintf(f, "]");
}

/* publish replaces the file with the settings, so that a reader never sees half of them. */
static void publish(void)
{
	const char *path = getenv("DCB_STATE");
	char temporary[4096];
	FILE *f;

	if (!path)
		return;
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	f = fopen(temporary, "w");
	if (!f)
		fail(temporary);
	fprintf(f, "{\"mode\": %d, \"pfc\": %d,\n", device.mode, device.pfc.pfc_en);
	fprintf(f, " \"ets\": {");
	write_list(f, "tc", device.ets.prio_tc);
	fprintf(f, ", ");
	write_list(f, "bandwidth", device.ets.tc_tx_bw);
	fprintf(f, ", ");
	write_list(f, "tsa", device.ets.tc_tsa);
	fprintf(f, "},\n \"apps\": [");
	for (int i = 0; i < device.app_count; i++) {
		const struct dcb_app *a = &device.apps[i];

		fprintf(f, "%s{\"priority\": %d, \"selector\": %d, \"protocol\": %d}", i ? ", " : "",
			a->priority, a->selector, a->protocol);
	}
	fprintf(f, "]}\n");
	if (fclose(f) || rename(temporary, path))
		fail(path);
}

/* A message under construction. */
struct reply {
	struct nlmsghdr header;
	char rest[8192];
};

/* add appends an attribute. A nest begins without data and ends with end(). */
static struct rtattr *add(struct reply *r, int type, const void *data, size_t size)
{
	struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

	if ((char *)a + RTA_SPACE(size) > (char *)(r + 1)) {
		errno = EMSGSIZE;
		fail("reply");
	}
	a->rta_type = type;
	a->rta_len = RTA_LENGTH(size);
	if (data)
		memcpy(RTA_DATA(a), data, size);
	r->header.nlmsg_len = NLMSG_ALIGN(r->header.nlmsg_len) + RTA_SPACE(size);
	return a;
}

static void add_u8(struct reply *r, int type, __u8 value)
{
	add(r, type, &value, sizeof(value));
}

static struct rtattr *begin(struct reply *r, int type)
{
	return add(r, type, NULL, 0);
}

static void end(struct reply *r, struct rtattr *nest)
{
	nest->rta_len = (char *)r + r->header.nlmsg_len - (char *)nest;
}

static int type_of(const struct rtattr *a)
{
	return a->rta_type & NLA_TYPE_MASK;
}

/* u8_of returns the value of a one-byte attribute. */
static __u8 u8_of(const struct rtattr *a)
{
	return a && RTA_PAYLOAD(a) >= 1 ? *(__u8 *)RTA_DATA(a) : 0;
}

/* get_ieee answers DCB_CMD_IEEE_GET. */
static void get_ieee(struct reply *r)
{
	struct rtattr *ieee, *table;

	add(r, DCB_ATTR_IFNAME, getenv("DCB_DEVICE"), strlen(getenv("DCB_DEVICE")) + 1);
	ieee = begin(r, DCB_ATTR_IEEE);
	add(r, DCB_ATTR_IEEE_ETS, &device.ets, sizeof(device.ets));
	add(r, DCB_ATTR_IEEE_PFC, &device.pfc, sizeof(device.pfc));
	table = begin(r, DCB_ATTR_IEEE_APP_TABLE);
	for (int i = 0; i < device.app_count; i++)
		add(r, DCB_ATTR_IEEE_APP, &device.apps[i], sizeof(device.apps[i]));
	end(r, table);
	end(r, ieee);
	add_u8(r, DCB_ATTR_DCBX, device.mode);
}

/* change_apps adds or deletes the entries of an application table. */
static void change_apps(struct rtattr *table, bool adds)
{
	int left = RTA_PAYLOAD(table);

	for (struct rtattr *a = RTA_DATA(table); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		struct dcb_app app;
		int i;

		if (type_of(a) != DCB_ATTR_IEEE_APP || RTA_PAYLOAD(a) < sizeof(app))
			continue;
		memcpy(&app, RTA_DATA(a), sizeof(app));
		for (i = 0; i < device.app_count; i++)
			if (!memcmp(&device.apps[i], &app, sizeof(app)))
				break;
		if (adds && i == device.app_count && i < MAX_APPS)
			device.apps[device.app_count++] = app;
		else if (!adds && i < device.app_count)
			device.apps[i] = device.apps[--device.app_count];
	}
}

/* set_ieee executes DCB_CMD_IEEE_SET, or DCB_CMD_IEEE_DEL if adds is false. */
static void set_ieee(struct rtattr *ieee, bool adds)
{
	int left = ieee ? RTA_PAYLOAD(ieee) : 0;

	for (struct rtattr *a = RTA_DATA(ieee); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (type_of(a) == DCB_ATTR_IEEE_ETS && RTA_PAYLOAD(a) >= sizeof(device.ets)) {
			memcpy(&device.ets, RTA_DATA(a), sizeof(device.ets));
			device.ets.ets_cap = CLASSES; /* the driver's, not the user's */
		}
		if (type_of(a) == DCB_ATTR_IEEE_PFC && RTA_PAYLOAD(a) >= sizeof(device.pfc)) {
			memcpy(&device.pfc, RTA_DATA(a), sizeof(device.pfc));
			device.pfc.pfc_cap = CLASSES;
		}
		if (type_of(a) == DCB_ATTR_IEEE_APP_TABLE)
			change_apps(a, adds);
	}
}

/* execute carries out a request and completes its reply. It returns whether it knows the command.
 */
static bool execute(int command, struct rtattr **attribute, struct reply *r)
{
	switch (command) {
	case DCB_CMD_GPERM_HWADDR: /* lldpad uses the current address instead */
	/*
	 * Without this command, lldpad speaks IEEE only. That of Debian 12 can't send the older
	 * versions anyway: its dcbx_gettlv clears the state of the port (lldp_dcbx.c; openlldp
	 * commit aa18720, mended since).
	 */
	case DCB_CMD_GSTATE:
		return false;
	case DCB_CMD_GDCBX:
		add_u8(r, DCB_ATTR_DCBX, device.mode);
		return true;
	case DCB_CMD_SDCBX:
		device.mode = u8_of(attribute[DCB_ATTR_DCBX]);
		add_u8(r, DCB_ATTR_DCBX, 0);
		return true;
	case DCB_CMD_IEEE_GET:
		get_ieee(r);
		return true;
	case DCB_CMD_IEEE_SET:
	case DCB_CMD_IEEE_DEL:
		set_ieee(attribute[DCB_ATTR_IEEE], command == DCB_CMD_IEEE_SET);
		add_u8(r, DCB_ATTR_IEEE, 0);
		return true;
	}
	fprintf(stderr, "dcbnl.so: unknown command %d\n", command);
	return false;
}

/* refuse turns a reply into the error of a driver that lacks an operation. */
static void refuse(struct reply *r, const struct nlmsghdr *request)
{
	struct nlmsgerr e = {.error = -EOPNOTSUPP, .msg = *request};

	r->header.nlmsg_type = NLMSG_ERROR;
	r->header.nlmsg_len = NLMSG_LENGTH(sizeof(e));
	memcpy(NLMSG_DATA(&r->header), &e, sizeof(e));
}

/* deliver sends a reply to the socket that sent the request. */
static void deliver(int requester, struct reply *r)
{
	static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	socklen_t size = sizeof(to);
	int s;

	if (!real)
		real = dlsym(RTLD_NEXT, "sendto");
	/* A socket that is connected to the kernel receives from nobody else. */
	if (connect(requester, &nobody, sizeof(nobody)))
		fail("disconnect the requester");
	/* The kernel gives a socket its address when it first sends; this one has not sent yet. */
	if (getsockname(requester, (void *)&to, &size) ||
	    (!to.nl_pid && (bind(requester, (void *)&to, size) ||
			    getsockname(requester, (void *)&to, &size))))
		fail("the requester's address");
	r->header.nlmsg_pid = to.nl_pid;
	s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (s < 0 || real(s, r, r->header.nlmsg_len, 0, (void *)&to, sizeof(to)) < 0 || close(s))
		fail("send a reply");
}

static bool is_routing_socket(int fd)
{
	int domain, protocol;
	socklen_t size = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_NETLINK &&
	       !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) && protocol == NETLINK_ROUTE;
}

/* answer answers a DCB request for the device. It returns false for anything else. */
static bool answer(int fd, const void *message, size_t size)
{
	const struct nlmsghdr *request = message;
	const struct dcbmsg *dcb = NLMSG_DATA(request);
	struct rtattr *attribute[DCB_ATTR_MAX + 1] = {0};
	struct reply r = {0};
	int left;

	if (size < NLMSG_LENGTH(sizeof(*dcb)) || size < request->nlmsg_len ||
	    (request->nlmsg_type != RTM_GETDCB && request->nlmsg_type != RTM_SETDCB) ||
	    !is_routing_socket(fd))
		return false;
	left = NLMSG_PAYLOAD(request, sizeof(*dcb));
	for (struct rtattr *a = (void *)(dcb + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (type_of(a) <= DCB_ATTR_MAX)
			attribute[type_of(a)] = a;
	if (!attribute[DCB_ATTR_IFNAME] || !getenv("DCB_DEVICE") ||
	    strcmp(RTA_DATA(attribute[DCB_ATTR_IFNAME]), getenv("DCB_DEVICE")))
		return false;

	r.header.nlmsg_type = request->nlmsg_type;
	r.header.nlmsg_seq = request->nlmsg_seq;
	r.header.nlmsg_len = NLMSG_LENGTH(sizeof(*dcb));
	memcpy(NLMSG_DATA(&r.header), dcb, sizeof(*dcb));
	if (!execute(dcb->cmd, attribute, &r))
		refuse(&r, request);
	if (request->nlmsg_type == RTM_SETDCB)
		publish();
	deliver(fd, &r);
	return true;
}

/* The functions that send a request. */

ssize_t sendto(int fd, const void *message, size_t size, int flags, const struct sockaddr *to,
	       socklen_t to_size)
{
	static __typeof__(&sendto) real;

	if (!real)
		real = dlsym(RTLD_NEXT, "sendto");
	return answer(fd, message, size) ? (ssize_t)size : real(fd, message, size, flags, to, to_size);
}

ssize_t send(int fd, const void *message, size_t size, int flags)
{
	return sendto(fd, message, size, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	static __typeof__(&sendmsg) real;

	if (!real)
		real = dlsym(RTLD_NEXT, "sendmsg");
	if (m->msg_iovlen == 1 && answer(fd, m->msg_iov->iov_base, m->msg_iov->iov_len))
		return m->msg_iov->iov_len;
	return real(fd, m, flags);
}
