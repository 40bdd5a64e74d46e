/* Mismatch: members of a communicator that call different things under the same index.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.15 (majority signature, deviators with the
 * field, shift detection, exemptions); PyTorch's flight recorder analyser for the idea.
 */
#ifndef HM_ANALYSIS_MISMATCH_H
#define HM_ANALYSIS_MISMATCH_H

#include "analysis/hang.h"

/* Bits: in what a member differs from the majority. */
enum hm_sig_field {
    HM_SIG_FUNC = 1,
    HM_SIG_DTYPE = 2,
    HM_SIG_COUNT = 4,
    HM_SIG_ROOT = 8,
    HM_SIG_OTHER = 16
};
/** The signature that most members call: differs_p [n] gets the fields in which each differs from
 *  it. Returns its index, SIZE_MAX = no majority (two are equally many; differs_p is 0). Counts of
 *  all-to-all, gather and scatter may differ. */
size_t hm_sig_vote(const struct hm_sig *sig, size_t n, uint8_t *differs_p);
/** "count of elements", for one or more fields. */
const char *hm_sig_words(uint8_t fields);

enum { HM_MISMATCH_COMMS = 16, HM_MISMATCH_MEMBERS = 1024 };
struct hm_mismatch_member {
    uint64_t bytes, next_bytes;
    uint32_t worker, signature, next_signature; /* next: of the collective after it */
    uint8_t func, next_func, differs, has_next;
};
struct hm_mismatch_row { /* the first disagreement on a communicator */
    uint64_t comm;
    uint32_t seq, n, majority;         /* majority: index of a member, HM_NO_ID = none */
    struct hm_mismatch_member *member; /* [n], at most HM_MISMATCH_MEMBERS */
};
struct hm_mismatches {
    struct hm_mismatch_row row[HM_MISMATCH_COMMS];
    uint32_t n, n_more;  /* n_more: communicators beyond */
    uint64_t n_launches; /* collectives on them that do not agree */
};
/** Takes a matched launch with its parts, launches of a communicator in order. */
hm_status_t hm_mismatch_launch(struct hm_mismatches *m, const struct hm_launch *l,
                               const struct hm_part *part);
/** What the deviator did, judged by the collective after it: 1 it made a call more, -1 it left one
 *  out, 0 neither. */
int hm_mismatch_shift(const struct hm_mismatch_row *row, uint32_t i_member);
void hm_mismatch_clear(struct hm_mismatches *m);

#endif
