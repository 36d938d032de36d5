# The front door: make help lists what can be done. What takes more than a few lines is a program in tests/tools/ or tests/learn/.

ifneq ($(filter 1.% 2.% 3.%,$(MAKE_VERSION)),)
$(error this is GNU Make $(MAKE_VERSION), and 4.0 or later is needed (macOS: brew install make, then gmake))
endif

CHAPTERS := $(patsubst chapters/%/server.c,%,$(wildcard chapters/[0-9][0-9]/server.c))
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
B ?= build/$(if $(HEADERS),headers,test)
export WORKBOOK_BUILD = $(B)

# A misspelt goal or variable, a tool that is missing: door.py says so in one line, and nothing is done.
python = sh tests/tools/findpython.sh sys
pytest = sh tests/tools/findpython.sh pytest
quote = '$(subst ','\'',$1)'
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
wrong := $(shell $(python) tests/tools/door.py $(call quote,$(MAKECMDGOALS)) $(call quote,$(MAKEOVERRIDES)))
$(if $(wrong),$(error $(wrong)))
endif

# Programs are built side by side, by a make of their own.
side_by_side = env -u MAKEFLAGS $(MAKE) -s --no-print-directory -O -j$(JOBS)

.PHONY: all help $(CHAPTERS) build demo test test-all bench bench-quick bench-full exercises progress next grade grade-all \
    hunts class-check handout gradescope site clean always

# --- Chapters, next to their sources: make 07 ---

all:
	@$(side_by_side) $(CHAPTERS)
	@echo "Every chapter is built. Next: make demo shows them at work, make help tells what else there is."

$(CHAPTERS):
	@$(MAKE) -q -C chapters/$@ >/dev/null || { $(MAKE) --no-print-directory -s -C chapters/$@ && \
	    echo "chapters/$@: $(basename $(notdir $(wildcard chapters/$@/*.c)))"; }

help: ; @cat tests/tools/help.txt

run-%: % ; @chapters/$*/server

# --- All other builds, each in its folder $(B): make build-07 B=build/clang CC=clang ---

programs := $(patsubst chapters/%.c,$(B)/%,$(wildcard chapters/[0-9][0-9]/*.c))
headers := $(wildcard common/*.h $(addsuffix /*.h,$(HEADERS)))
threaded := $(patsubst chapters/%/Makefile,%,$(shell grep -l -e -pthread chapters/*/Makefile))
optimize := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all,-O2)
compile := $(CC) -std=gnu11 -g $(optimize) -Wall -Wextra -Werror -I$(if $(HEADERS),$(B)/include,common)

build: ; @$(side_by_side) $(programs)
build-%: ; @$(side_by_side) $(filter $(B)/$*/%,$(programs))

# A program takes its name when it is complete, so that several makes may build at once.
$(programs): $(B)/%: chapters/%.c $(headers) $(B)/compile
	@echo $@
	@mkdir -p $(@D)
	@$(compile) $(if $(filter $(threaded),$(*D)),-pthread) $< -o $@.$$$$ && mv -f $@.$$$$ $@

# Changes when the way to compile does. HEADERS come first everywhere in a folder of links: to common/, then to them.
$(B)/compile: export WAY = $(compile) $(headers)
$(B)/compile: always
	@mkdir -p $(B)/include
	@echo "$$WAY" | cmp -s - $@ || { echo "$$WAY" >$@; \
	    $(if $(HEADERS),for h in $(headers); do ln -sf "$$(realpath $$h)" $(B)/include; done;) }

# --- Watching, comparing, testing: make test-07 ---

run = $(pytest) tests/tools/runtests.py
untested = { echo "Nothing was tested: mend the first error above, then type the same again."; exit 2; }
built = $(if $(and $(SERVER),$(CLIENT)),:,{ $(side_by_side) $1 || $(untested); })
test: ; @$(call built,build) && $(run) --new -- $(ARGS)
test-all: ; @$(call built,build) && $(run) --all -- $(ARGS)
$(CHAPTERS:%=test-%): test-%: ; @$(call built,build-$*) && $(run) $* -- $(ARGS)
test-%: build ; @$(run) $* -- $(ARGS)

demo demo-%: quietly = echo "Building what is not built yet ..." && $(side_by_side) >/dev/null
demo: ; @$(quietly) build && $(python) tests/learn/demo.py $(CHAPTERS)
demo-%: ; @$(quietly) build-$* && $(python) tests/learn/demo.py $*
diff-%: ; @$(python) tests/tools/stagediff.py $(subst -, ,$*)

bench: build ; @$(python) tests/bench/bench.py normal $(ARGS)
bench-quick bench-full: build ; @$(python) tests/bench/bench.py $(@:bench-%=%) $(ARGS)

# --- Exercises: make start-04-buffered-reads ---

learner = tests/learn/learner.py
exercises: ; @$(python) $(learner) list
progress next: ; @$(python) $(learner) $@
start-%: ; @$(python) $(learner) start $*
check-%: ; @$(pytest) $(learner) check $* -- $(ARGS)
watch-%: ; @$(pytest) $(learner) watch $*
hint-%: ; @$(python) $(learner) hint $*
solution-%: ; @$(python) $(learner) solution $*
reset-%: ; @$(python) $(learner) reset $*

# --- For those who teach ---

graded = $(addprefix --exercise ,$(EXERCISE)) $(if $(OUT),--out "$$OUT")
grade: ; @$(pytest) tests/learn/grade.py one "$$SUBMISSION" $(graded)
grade-all: ; @$(pytest) tests/learn/grade.py all "$$SUBMISSIONS" -j $(JOBS) $(graded)
hunts: ; @$(pytest) tests/learn/hunts.py $(if $(ROSTER),make "$$ROSTER",grade "$$SUBMISSIONS") -j $(JOBS) \
    $(CHAPTERS:%=--chapter %) $(if $(OUT),--out "$$OUT")
class-check: ; @$(pytest) tests/learn/classroom.py $(or $(N),200) -j $(JOBS)
handout: ; @$(python) tests/learn/pack.py handout $(if $(SITE),--site) $(CHAPTERS)
gradescope: ; @$(python) tests/learn/pack.py gradescope $(EXERCISE)

# --- The book in a browser ---

site: ; @$(python) tests/tools/website.py $(if $(OUT),"$$OUT")

clean: ; @rm -rf build $(patsubst %.c,%,$(wildcard chapters/*/*.c)) $$(find tests -name __pycache__ -o -name .pytest_cache)

# --- For those who change the workbook: sanitizers, faults, the checks of text and tools ---

include tests/tools/upkeep.mk
