# make demo | play | walk | verify | test | train | lint | setup | clean.  Each does all its own set-up, in .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo play docs screenshots walk verify certify search verify-negative train test lint clean messages robot train-setup

VENV := .venv
ROBOT := anymal_d
BUNDLE := config/bundles/$(ROBOT)
# Processes that share the robots of a training run: two where there are two cores. On one GPU: PROCESSES=1.
PROCESSES := $(if $(filter 1,$(shell nproc)),1,2)
TRAIN := torchrun --standalone --nproc_per_node $(PROCESSES) -m diffsim_trainer.train --config config/train/$(ROBOT).yaml
WALK := runs/walk-$(shell date +%Y%m%d-%H%M%S)
# One set of stamps for ROS 2 from PyPI and one for a sourced ROS 2: changing between the two makes the environment anew.
STAMP := $(VENV)/stamps/ros-$(if $(shell scripts/in_underlay.sh $(VENV) rclpy),system,wheels)
ENTER := . scripts/env.sh;
SRC := ros2_ws/src
MESSAGES := $(wildcard $(SRC)/*_msgs/* $(SRC)/*_msgs/*/*)
PACKAGES := $(wildcard $(SRC)/*/setup.* $(foreach p,diffsim_trainer policy_controller anymal_bridge,$(SRC)/$p/package.xml))
SHARED := $(shell find config launch) # files come and go with their folders

help:
	@echo 'make demo    drive the shipped policy through the real controller node and the simulated robot; verdict in report/'
	@echo 'make play    the same robot in the browser, driven by hand, until Ctrl-C'
	@echo 'make walk    train a policy from random weights, export it, drive it as in make demo and open the report'
	@echo 'make verify  every scenario that a bundle must pass before hardware, on two engines; verdict in report/verify/'
	@echo 'make certify sign a certificate for what make verify has passed; needed for the real robot'
	@echo 'make search  how far the robot may differ before the policy fails; plot in report/search/'
	@echo 'make verify-negative  that spoilt bundles and a spoilt controller fail'
	@echo 'make test    lint, then all tests'
	@echo 'make train   train a policy into runs/$(ROBOT) (ROBOT=..., PROCESSES=1 ARGS="--device cuda:0 --resume")'
	@echo 'make setup   only the environment: then ". scripts/env.sh" enters it'
	@echo 'make docs    the documentation as a site in build/site; a broken link fails'
	@echo 'make screenshots  take the picture of docs/view.md anew'
	@echo 'make lint    ruff and the import directions'
	@echo 'make clean   remove what the above made, but for runs/'

setup: $(STAMP)/runtime $(STAMP)/packages

# Parts of the set-up, for docker/.
messages: $(STAMP)/messages
robot: $(STAMP)/robot $(STAMP)/packages
train-setup: setup $(STAMP)/train

demo: setup
	$(ENTER) python -m policy_controller.verification.demo --bundle $(BUNDLE) --out report $(ARGS)

play: setup
	$(ENTER) python -m policy_controller.play --bundle $(BUNDLE) $(ARGS)

docs: train-setup $(STAMP)/test
	$(ENTER) NO_MKDOCS_2_WARNING=1 mkdocs build

screenshots: train-setup $(STAMP)/test
	$(ENTER) VIEW_SCREENSHOT=docs/images/view.png python -m pytest ros2_ws/src/policy_controller/test/view/test_browser.py

walk: train-setup
	$(ENTER) $(TRAIN) --out $(WALK)
	$(ENTER) python -m diffsim_trainer.export --checkpoint $(WALK)/checkpoint.pt --out $(WALK)/bundle
	$(ENTER) python -m policy_controller.verification.demo --bundle $(WALK)/bundle --out report $(ARGS)
	$(ENTER) python -m webbrowser -t "file://$(CURDIR)/report/index.html"

verify: setup
	$(ENTER) python -m policy_controller.verification.verify --bundle $(BUNDLE) --out report/verify $(ARGS)

certify: setup
	$(ENTER) python -m policy_controller.verification.certify --bundle $(BUNDLE) --report report/verify $(ARGS)

search: setup
	$(ENTER) python -m policy_controller.verification.search --bundle $(BUNDLE) --out report/search $(ARGS)

verify-negative: train-setup $(STAMP)/test
	$(ENTER) python -m pytest -v -k negative $(SRC)/policy_controller/test/verification/test_verify.py $(ARGS)
	$(ENTER) test -d runs/negative/smoothed_bundle || python -m diffsim_trainer.experiments.soft_bundle --out runs/negative
	$(ENTER) python -m policy_controller.verification.verify --bundle runs/negative/soft_bundle --out report/negative --only commands && exit 1 || test $$? = 1

train: train-setup
	$(ENTER) $(TRAIN) --out runs/$(ROBOT) $(ARGS)

lint: train-setup $(STAMP)/test
	$(ENTER) ruff check .
	$(ENTER) lint-imports

test: lint
	$(ENTER) python -m pytest $(ARGS)

clean:
	rm -rf $(VENV) report .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf ros2_ws/build ros2_ws/install ros2_ws/log

$(STAMP)/venv: scripts/make_venv.sh requirements/build.txt requirements/ros.txt
	@echo '--- making $(VENV) with ROS 2'
	PYTHON='$(PYTHON)' scripts/make_venv.sh $(VENV)
	@mkdir -p $(@D) && touch $@

$(STAMP)/messages: $(STAMP)/venv scripts/build_ros.sh cmake/ros_wheels.cmake $(MESSAGES)
	@echo '--- building the message packages'
	scripts/build_ros.sh $(VENV) messages
	@touch $@

$(STAMP)/packages: $(STAMP)/messages $(PACKAGES) $(SHARED)
	@echo '--- linking the Python packages'
	scripts/build_ros.sh $(VENV) python
	@touch $@

$(STAMP)/runtime: requirements/robot.txt
$(STAMP)/robot $(STAMP)/runtime $(STAMP)/train $(STAMP)/test: $(STAMP)/%: requirements/%.txt requirements/constraints.txt $(STAMP)/venv
	@echo '--- installing $<'
	scripts/pip_install.sh $(VENV) -r $<
	@touch $@
