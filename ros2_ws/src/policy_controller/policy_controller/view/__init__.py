"""The robot in a browser: live with controls, or from a recording. Knows the controller and the
robot by their messages only."""
