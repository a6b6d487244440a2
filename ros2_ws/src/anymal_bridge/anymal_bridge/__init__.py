"""The far side of the joint command: the simulated robot and the guarded bridge to the real one."""
