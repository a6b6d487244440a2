"""The paper's experiments, one command each: `python -m diffsim_trainer.experiments list`.

One module per experiment, each with `run(settings)`, which writes a PNG and a CSV into the output
directory and prints the table. `task` builds what they share, `output` writes.
"""
