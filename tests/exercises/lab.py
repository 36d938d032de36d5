"""For graders that look inside: small C programs against the learner's headers, and servers whose work is counted."""
from __future__ import annotations

import re
from typing import Sequence

from grading import Build, Submission
from harness.process import status_text

# Every function that is entered, inline ones too, shows as a call of strcmp(), which work.count() counts.
HOOK = """
static const char *volatile g_entered = "";
static volatile int g_entered_sink;
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *caller);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller) {
    (void)function, (void)caller;
    g_entered_sink = __builtin_strcmp(g_entered, g_entered);
}
void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
}
"""

# Stands at the top of every small program. WRONG() ends it with a lesson.
TOP = r"""
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TRYING(...) (printf("trying: " __VA_ARGS__), printf("\n"), fflush(stdout))
#define CAME(...) (printf("came: " __VA_ARGS__), printf("\n"))
#define EXPECTED(...) (printf("expected: " __VA_ARGS__), printf("\n"), exit(1))
"""

# make() builds a tree of n nodes in one of four orders; g_items[i] holds the one at place i.
TREES = r"""
enum { k_most = 300 };
struct item {
    struct avl_node node;
    unsigned val;
};
static struct item g_items[k_most];
static unsigned g_n;

static struct avl_node *make(unsigned n, unsigned way) {
    static const unsigned factors[] = {1, 299, 7, 113}; // none shares a divisor with 300
    struct avl_node *root = NULL;
    g_n = 0;
    for (unsigned i = 0; i < k_most; i++) {
        unsigned val = (i * factors[way] + (way == 1 ? 299 : 0)) % k_most;
        if (val >= n) {
            continue;
        }
        struct avl_node *parent = NULL, **link = &root;
        while (*link) {
            parent = *link;
            link = val < ((struct item *)parent)->val ? &parent->left : &parent->right;
        }
        g_items[val].val = val;
        avl_link(&root, parent, link, &g_items[val].node);
        g_n++;
    }
    return root;
}
"""


def passes(
    work: Submission, name: str, text: str, cause: str = "", *, headers: Sequence[str] = (),
    change: str = "", flags: Sequence[str] = (), seconds: float = 15.0,
) -> None:  # fmt: skip
    """Builds NAME.c, the text with TOP above it, against the learner's headers; fails with what it says of itself.

    change: of headers, as for work.variant(); only of those that are not the learner's to change.
    """
    includes = "".join(f'#include "{header}"\n' for header in headers)
    build = work.variant(change, [name], {f"{name}.c": TOP + includes + text}, flags)
    out, err, status = build.run(name, seconds=seconds)
    if status == 0 and re.search(r"^all well$", out, re.M):
        return
    said = {key: re.findall(rf"^{key}: (.*)", out, re.M)[-1:] for key in ("trying", "came", "expected")}
    trying = f"\nin this case: {said['trying'][0]}" if said["trying"] else ""
    if said["came"]:
        came = said["came"][0]
    else:
        came = f"a small program with your header ended with {status_text(status)}" + (
            f"\n{err[-500:]}" if err.strip() else ""
        )
    work.fail(came=came + trying, expected=(said["expected"] or ["it runs to its end"])[0], cause=cause)


def counting_server(work: Submission) -> Build:
    """The learner's server, built so that counted["strcmp"] is how often it entered a function."""
    source = work.source("server.c")
    files = {"server.c" if source else "src/hook.c": source + HOOK}
    return work.variant("", ["server"], files, ["-finstrument-functions"])
