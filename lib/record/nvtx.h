/* What the two files of the NVTX source share, and what it must know of NVTX.
 *
 * Box: lib/record. No header of NVTX is included: the callback tables are pointers to function
 * pointers, found by module and number, and the one structure of the interface is read at fixed
 * offsets. Source: NVTX 3 documentation and headers (nvToolsExt.h, nvtxTypes.h), CUDA 13.0.
 */
#ifndef HM_RECORD_NVTX_H
#define HM_RECORD_NVTX_H

#include "record/record.h"

#include <wchar.h>

enum hm_nvtx_module { HM_NVTX_CORE = 1, HM_NVTX_CORE2 = 5 };
enum hm_nvtx_core {
    HM_NVTX_MARK_EX = 1,
    HM_NVTX_MARK_A,
    HM_NVTX_MARK_W,
    HM_NVTX_START_EX,
    HM_NVTX_START_A,
    HM_NVTX_START_W,
    HM_NVTX_END,
    HM_NVTX_PUSH_EX,
    HM_NVTX_PUSH_A,
    HM_NVTX_PUSH_W,
    HM_NVTX_POP,
    HM_NVTX_CATEGORY_A,
    HM_NVTX_CATEGORY_W,
    HM_NVTX_THREAD_A,
    HM_NVTX_THREAD_W
};
enum hm_nvtx_core2 {
    HM_NVTX_DOMAIN_MARK_EX = 1,
    HM_NVTX_DOMAIN_START_EX,
    HM_NVTX_DOMAIN_END,
    HM_NVTX_DOMAIN_PUSH_EX,
    HM_NVTX_DOMAIN_POP,
    HM_NVTX_DOMAIN_RESOURCE,
    HM_NVTX_DOMAIN_CATEGORY_A = 8,
    HM_NVTX_DOMAIN_CATEGORY_W,
    HM_NVTX_DOMAIN_STRING_A,
    HM_NVTX_DOMAIN_STRING_W,
    HM_NVTX_DOMAIN_CREATE_A,
    HM_NVTX_DOMAIN_CREATE_W
};

struct hm_nvtx_attributes { /* nvtxEventAttributes_t, versions 1 to 3 */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type, pad;
    const void *message;
};
_Static_assert(sizeof(struct hm_nvtx_attributes) == 48, "");
enum { HM_NVTX_ASCII = 1, HM_NVTX_WIDE, HM_NVTX_REGISTERED };
enum { HM_NVTX_TEXT = 1024 }; /* bytes of a text that we make ourselves: wide or folded */

/* What a call says, whichever of its forms was used. */
struct hm_nvtx_said {
    const char *text;
    size_t len;
    const void *registered;
    const struct hm_nvtx_attributes *more; /* NULL = a text alone */
    char narrow[HM_NVTX_TEXT];
};
void hm_nvtx_say_ascii(struct hm_nvtx_said *said, const char *text);
void hm_nvtx_say_wide(struct hm_nvtx_said *said, const wchar_t *text);
void hm_nvtx_say_attributes(struct hm_nvtx_said *said, const struct hm_nvtx_attributes *a);

/** The calls proper; `domain` NULL = the one without a name. Thread: any. Push and pop return the
 *  level, -2 = not followed; start the number that end takes, 0 = not recorded. */
int hm_nvtx_push(const void *domain, const struct hm_nvtx_said *said);
int hm_nvtx_pop(const void *domain);
void hm_nvtx_mark(const void *domain, const struct hm_nvtx_said *said);
uint64_t hm_nvtx_start(const void *domain, const struct hm_nvtx_said *said);
void hm_nvtx_end(uint64_t serial);
void hm_nvtx_name_category(const void *domain, uint32_t category, const struct hm_nvtx_said *said);
void hm_nvtx_name_thread(uint32_t tid, const struct hm_nvtx_said *said);

/** Before the first call of the program: the step range as the environment names it. */
void hm_nvtx_text_init(void);
/** UTF-8 of a wide text, cut (and counted) to what fits; returns its length. */
size_t hm_nvtx_narrow(const wchar_t *wide, char text_p[HM_NVTX_TEXT]);
/** Handle of a registered string or a domain: the text outlives the call, also while we sleep.
 *  Never NULL. */
void *hm_nvtx_handle(const char *text, size_t len);
/** String id of a handle that we gave; HM_NO_ID for anything else. Thread: any. */
uint32_t hm_nvtx_handle_id(const void *handle);
/** The text of a handle, NULL = not ours. */
const char *hm_nvtx_handle_text(const void *handle, size_t *len_p);
/** String id of a text of this domain. After 1,000 different ones, digits of new ones become '#':
 *  a name with a counter in it must not fill the table. */
uint32_t hm_nvtx_name(uint32_t domain, const char *text, size_t len);
/** Is this the name of the step range (HINDMOST_STEP_RANGE), with or without a number? The number,
 *  or -1 when there is none. Thread: any. */
int hm_nvtx_is_step(const char *text, size_t len, int64_t *step_p);

#endif
