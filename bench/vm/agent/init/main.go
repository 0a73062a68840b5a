// Command init is the agent of a rig's guest as a program of its own, the smallest for a guest.
package main

import "sluice/bench/vm/agent"

func main() { agent.Main() }
