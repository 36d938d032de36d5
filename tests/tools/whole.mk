# The part of the Makefile that needs all of the workbook. make handout leaves it out, and with it these targets.

.PHONY: hunts handout gradescope broken exercises-check tools-check book-check book-update site-check check-all

hunts: ; @$(pytest) tests/learn/hunts.py $(if $(ROSTER),make "$$ROSTER",grade "$$SUBMISSIONS") \
    $(CHAPTERS:%=--chapter %) $(if $(OUT),--out "$$OUT")
handout: ; @$(python) tests/learn/pack.py handout $(if $(SITE),--site) $(CHAPTERS)
gradescope: ; @$(python) tests/learn/pack.py gradescope $(EXERCISE)

tools-check: build ; @$(run) $(filter-out messages,$(of_tools)) --split messages -- $(ARGS)
broken: $(if $(findstring -k,$(ARGS)),,build) ; @$(run_one) tests/selftests/test_broken.py $(ARGS)
# What is wrong often waits until its time is up: more graders than processors, twice as many.
waiting = JOBS=$$((2 * $(JOBS)))
exercises-check: build ; @$(waiting) $(run) $(if $(ARGS),,exercises classroom cheats) --split solutions -- $(ARGS)
book-check: build ; @$(run) --split book -- $(ARGS)
book-update: ; @$(python) tests/tools/stages.py update && $(python) tests/tools/book.py update
site-check: ; @$(run_one) tests/selftests/test_site.py $(ARGS)

# All of it, an hour on two processors. What lacks a tool is left out, and with CI in the environment a failure.
checks := gcc clang readme-lines musl m32 format-check test tools-check redis-check fuzz broken exercises-check asan \
    tsan book-check site-check valgrind bench-quick
make_alone = env -u MAKEFLAGS CC=gcc $(MAKE) --no-print-directory
lacked = $(call missing,$(needs.$1))
check-all:
	@left_out() { echo "$$1: left out, since $$2 is missing" >>build/checks; [ -z "$$CI" ] || failed=1; }; \
	check() { \
	    echo "=== make $$1 ==="; start=$$(date +%s); says=ok; \
	    $(make_alone) "$$1" || { says=FAILED; failed=1; }; \
	    echo "$$1: $$says, $$(($$(date +%s) - start)) s" >>build/checks; \
	}; \
	mkdir -p build && : >build/checks; failed=0; \
	$(foreach each,$(checks),$(if $(call lacked,$(each)),left_out $(each) "$(call lacked,$(each))",check $(each));) \
	echo "=== make check-all ==="; cat build/checks; exit $$failed
