package snoop

import "sluice/internal/fcoe"

// Reason is why a frame is refused. Its name is stable: counters, captures and metrics use it. The
// first ones are those of fcoe.Problem, for frames that break a rule of the format.
type Reason uint8

// Passed is the Reason of a frame that is not refused.
const Passed = Reason(fcoe.OK)

// The reasons besides those of fcoe.Problem.
const (
	BadHeader      = Reason(fcoe.Problems) + iota // the Ethernet header is not one of FIP
	VN2VN                                         // FIP between ENodes without an FCF
	WrongVLAN                                     // not an FCoE VLAN, and no VLAN discovery; or not a VLAN of the port
	RogueFCF                                      // what only an FCF sends, from an ENode port
	RogueENode                                    // what only an ENode sends, from an FCF port
	Unsupported                                   // ELP
	BadSource                                     // a source address that its sender must not have
	FCFAddress                                    // an ENode has the address of an FCF
	ENodeConflict                                 // an ENode has an address that is bound to another port
	BadDestination                                // a destination that the operation must not have
	UnknownFCF                                    // no such FCF is known, or not at this port
	FCFConflict                                   // an advertisement with the address of an FCF at another port
	FCFNotAllowed                                 // an advertisement of an FCF that is not in the list of the instance
	FCMapMismatch                                 // an advertisement with another FC-MAP than the instance
	BadLogin                                      // a login whose S_ID is not 0 or whose D_ID is not FFFFFE
	NoFLOGI                                       // an FDISC of an ENode that has no virtual link to the FCF
	NoLink                                        // a keep-alive or LOGO without its ENode or virtual link
	NoRequest                                     // a reply that no ENode waits for
	NotFPMA                                       // an accept that grants no FPMA, and no SPMA that was asked for
	FPMAMismatch                                  // the FPMA granted is not FC-MAP and FC_ID
	BadFCID                                       // an accept whose FC_ID is not from 010000 to EFFFFF
	FPMAConflict                                  // the address granted belongs to a virtual link of another FCF
	SPMAConflict                                  // the SPMA granted is in use, or no address for a VN_Port
	BadName                                       // clear virtual links with another switch name than the FCF's
	FCFLimit                                      // no room for a further FCF
	ENodeLimit                                    // no room for a further ENode
	SessionLimit                                  // no room for a further virtual link
	PendingLimit                                  // no room for a further login or logout without a reply
	NoEgress                                      // no other port is to have the frame, or none that is up
	Congested                                     // see System.Undelivered
	Reasons                                       // how many there are
)

var reasonNames = [Reasons]string{
	BadHeader: "bad_header", VN2VN: "vn2vn", WrongVLAN: "wrong_vlan", RogueFCF: "rogue_fcf", RogueENode: "rogue_enode",
	Unsupported: "unsupported", BadSource: "bad_source", FCFAddress: "fcf_address", ENodeConflict: "enode_conflict",
	BadDestination: "bad_destination", UnknownFCF: "unknown_fcf", FCFConflict: "fcf_conflict",
	FCFNotAllowed: "fcf_not_allowed", FCMapMismatch: "fc_map_mismatch", BadLogin: "bad_login", NoFLOGI: "no_flogi",
	NoLink: "no_session", NoRequest: "no_request", NotFPMA: "not_fpma", FPMAMismatch: "fpma_mismatch",
	BadFCID: "bad_fc_id", FPMAConflict: "fpma_conflict", SPMAConflict: "spma_conflict", BadName: "bad_name",
	FCFLimit: "fcf_limit", ENodeLimit: "enode_limit", SessionLimit: "session_limit", PendingLimit: "pending_limit",
	NoEgress: "no_egress", Congested: "congested",
}

// String returns the name used in counters.
func (r Reason) String() string {
	if r < Reason(fcoe.Problems) {
		return fcoe.Problem(r).String()
	}
	return reasonNames[r]
}

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
	Reconfigured               // a change of ports, roles, VLANs, FC-MAP, allowed FCFs or SPMA
	LoggedInAgain              // a further FLOGI of the ENode to the FCF, accepted
	Reassigned                 // the FCF has given its address to another login
	TakenByFCF                 // an FCF has the ENode's address
	Causes                     // how many there are
)

var causeNames = [Causes]string{
	LoggedOut: "logged_out", Cleared: "cleared", FCFExpired: "fcf_expired", ENodeExpired: "enode_expired",
	LinkExpired: "session_expired", PortDown: "port_down", Reconfigured: "reconfigured",
	LoggedInAgain: "logged_in_again", Reassigned: "reassigned", TakenByFCF: "taken_by_fcf",
}

// String returns the name used in counters.
func (c Cause) String() string { return causeNames[c] }
