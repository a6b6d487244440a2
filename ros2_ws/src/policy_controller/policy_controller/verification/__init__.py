"""Drive the real nodes over ROS, record, measure, judge, report.

Everything here talks to the nodes through the topics and services of the robot and of the
controller, and imports neither: the same code can watch a simulated robot or a tethered one.
Reading order::

    scenario   what is commanded, and which limits decide        (pure)
    recording  what was recorded, as arrays                      (pure)
    feet       foot contact points from joint angles             (pure)
    metrics    numbers from a recording; gait, timing            (pure)
    verdict    limits against numbers                            (pure)
    plots, report                                                (pure)
    processes  start and stop the nodes
    recorder   topics -> recording                               (ROS)
    operator   services and commands                             (ROS)
    relay      joint commands, in lockstep only                  (ROS)
    runner     one scenario through running nodes                (ROS)
    demo       the command line
"""
