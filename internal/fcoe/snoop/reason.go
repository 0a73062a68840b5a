package snoop

import "sluice/internal/fcoe"

// Reason is why a frame is refused. Its name is stable: counters, captures and metrics use it. The
// first ones are those of fcoe.Problem, for frames that break a rule of the format.
type Reason uint8

// Passed is the Reason of a frame that is not refused.
const Passed = Reason(fcoe.OK)

// The reasons besides those of fcoe.Problem.
const (
	BadHeader       = Reason(fcoe.Problems) + iota // the Ethernet header is not one of FIP
	VN2VN                                          // FIP between ENodes without an FCF
	WrongVLAN                                      // not an FCoE VLAN, and no VLAN discovery; or not a VLAN of the port
	RogueFCF                                       // what only an FCF sends, from an ENode port
	RogueENode                                     // what only an ENode sends, from an FCF port
	Unsupported                                    // ELP
	BadSource                                      // a source address that its sender must not have
	FCFAddress                                     // an ENode has the address of an FCF
	ENodeConflict                                  // an ENode has an address that is bound to another port
	ENodeNotAllowed                                // a login that Port.ENodes does not allow at this port
	BadDestination                                 // a destination that the operation must not have
	UnknownFCF                                     // no such FCF is known, or not at this port
	FCFConflict                                    // an advertisement with the address of an FCF at another port
	FCFNotAllowed                                  // an advertisement of an FCF that is not in the list of the instance
	FCMapMismatch                                  // an advertisement with another FC-MAP than the instance
	BadLogin                                       // a login whose S_ID is not 0 or whose D_ID is not FFFFFE
	NoFLOGI                                        // an FDISC of an ENode that has no virtual link to the FCF
	NoLink                                         // a keep-alive or LOGO without its ENode or virtual link
	NoRequest                                      // a reply that no ENode waits for
	NotFPMA                                        // an accept that grants no FPMA, and no SPMA that was asked for
	FPMAMismatch                                   // the FPMA granted is not FC-MAP and FC_ID
	BadFCID                                        // an accept whose FC_ID is not from 010000 to EFFFFF
	FPMAConflict                                   // the address granted belongs to a virtual link of another FCF
	SPMAConflict                                   // the SPMA granted is in use, or no address for a VN_Port
	BadName                                        // clear virtual links with another switch name than the FCF's
	FCFLimit                                       // no room for a further FCF
	ENodeLimit                                     // no room for a further ENode
	SessionLimit                                   // no room for a further virtual link
	PendingLimit                                   // no room for a further login or logout without a reply
	NoEgress                                       // no other port is to have the frame, or none that is up
	Congested                                      // see System.Undelivered
	Reasons                                        // how many there are
)

// weight is what a refusal, or the end of a virtual link, means to an operator.
type weight uint8

const (
	everyday  weight = iota + 1 // no alert: it happens without a fault, or harms its sender only
	hindrance                   // an alert: something keeps a host from its storage
	serious                     // an alert, too: see Serious
)

var reasons = [Reasons]struct {
	name string
	weight
}{
	BadHeader: {"bad_header", everyday}, VN2VN: {"vn2vn", everyday}, WrongVLAN: {"wrong_vlan", everyday},
	RogueFCF: {"rogue_fcf", serious}, RogueENode: {"rogue_enode", serious}, Unsupported: {"unsupported", everyday},
	BadSource: {"bad_source", everyday}, FCFAddress: {"fcf_address", serious},
	ENodeConflict:   {"enode_conflict", serious},
	ENodeNotAllowed: {"enode_not_allowed", serious}, BadDestination: {"bad_destination", everyday},
	UnknownFCF: {"unknown_fcf", everyday}, FCFConflict: {"fcf_conflict", serious},
	FCFNotAllowed: {"fcf_not_allowed", serious}, FCMapMismatch: {"fc_map_mismatch", serious},
	BadLogin: {"bad_login", everyday}, NoFLOGI: {"no_flogi", everyday}, NoLink: {"no_session", hindrance},
	NoRequest: {"no_request", everyday}, NotFPMA: {"not_fpma", everyday}, FPMAMismatch: {"fpma_mismatch", everyday},
	BadFCID: {"bad_fc_id", everyday}, FPMAConflict: {"fpma_conflict", serious},
	SPMAConflict: {"spma_conflict", serious}, BadName: {"bad_name", everyday}, FCFLimit: {"fcf_limit", hindrance},
	ENodeLimit: {"enode_limit", hindrance}, SessionLimit: {"session_limit", hindrance},
	PendingLimit: {"pending_limit", hindrance}, NoEgress: {"no_egress", everyday},
	Congested: {"congested", everyday},
}

// String returns the name used in counters.
func (r Reason) String() string {
	if r < Reason(fcoe.Problems) {
		return fcoe.Problem(r).String()
	}
	return reasons[r].name
}

// Alerts reports whether there is an alert about such refusals.
func (r Reason) Alerts() bool { return reasons[r].weight >= hindrance }

// Serious reports whether the sender may be playing an FCF, claims an address that is another's, or
// can't log in because a setting is wrong.
func (r Reason) Serious() bool { return reasons[r].weight == serious }

// Cause is why a virtual link has ended. Its name is stable, too.
type Cause uint8

// The causes.
const (
	LoggedOut     Cause = iota // LOGO, accepted by the FCF
	Cleared                    // clear virtual links
	FCFExpired                 // the FCF has stopped advertising itself
	ENodeExpired               // the ENode has stopped sending keep-alives
	LinkExpired                // the VN_Port has stopped sending keep-alives
	PortDown                   // one of its two ports went down
	Reconfigured               // a change of ports, roles, VLANs, FC-MAP, allowed FCFs or ENodes, or SPMA
	LoggedInAgain              // a further FLOGI of the ENode to the FCF, accepted
	Reassigned                 // the FCF has given its address to another login
	TakenByFCF                 // an FCF has the ENode's address
	Causes                     // how many there are
)

var causes = [Causes]struct {
	name string
	weight
}{
	LoggedOut: {"logged_out", everyday}, Cleared: {"cleared", hindrance}, FCFExpired: {"fcf_expired", hindrance},
	ENodeExpired: {"enode_expired", hindrance}, LinkExpired: {"session_expired", hindrance},
	PortDown: {"port_down", everyday}, Reconfigured: {"reconfigured", everyday},
	LoggedInAgain: {"logged_in_again", everyday}, Reassigned: {"reassigned", everyday},
	TakenByFCF: {"taken_by_fcf", hindrance},
}

// String returns the name used in counters.
func (c Cause) String() string { return causes[c].name }

// Alerts reports whether there is an alert about such ends.
func (c Cause) Alerts() bool { return causes[c].weight >= hindrance }
