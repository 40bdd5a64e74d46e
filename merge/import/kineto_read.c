/* Kineto JSON -> events. Keys are looked up in tables; what is unknown is passed over.
 *
 * Box: merge/import. One thread. Source: facts on formats 1.3 (libkineto's JSON output).
 */
#include "import/jsonin.h"
#include "import/kineto.h"

#include <stdlib.h>
#include <string.h>

enum field_type { TEXT, WHOLE, MICROSECONDS, THREE };
struct field {
    const char *key;
    uint16_t offset, cap;
    uint8_t type;
};
#define F(key, member, type)                                    \
    {                                                           \
        key, offsetof(struct hm_kineto_event, member),          \
            sizeof(((struct hm_kineto_event *)0)->member), type \
    }
static const struct field event_field[] = {F("ph", ph, TEXT),
                                           F("cat", cat, TEXT),
                                           F("name", name, TEXT),
                                           F("ts", t_ns, MICROSECONDS),
                                           F("dur", dur_ns, MICROSECONDS),
                                           F("pid", pid, WHOLE),
                                           F("tid", tid, WHOLE)};
static const struct field arg_field[] = {F("correlation", correlation, WHOLE),
                                         F("device", device, WHOLE),
                                         F("stream", stream, WHOLE),
                                         F("context", context, WHOLE),
                                         F("bytes", bytes, WHOLE),
                                         F("graph id", graph, WHOLE),
                                         F("graph node id", graph_node, WHOLE),
                                         F("registers per thread", registers, WHOLE),
                                         F("shared memory", shared, WHOLE),
                                         F("grid", grid, THREE),
                                         F("block", block, THREE),
                                         F("name", label, TEXT),
                                         F("Collective name", collective, TEXT),
                                         F("dtype", dtype, TEXT),
                                         F("Process Group Name", group, TEXT),
                                         F("Process Group Ranks", group_ranks, TEXT),
                                         F("Group size", group_size, WHOLE),
                                         F("In msg nelems", n_in, WHOLE),
                                         F("Out msg nelems", n_out, WHOLE),
                                         F("Seq", seq, WHOLE),
                                         F("Src Rank", src, WHOLE),
                                         F("Dst Rank", dst, WHOLE)};
#undef F

/* Copies whole characters only. Returns 1 when something was cut. */
static int copy_text(char *to, size_t cap, const char *text, size_t len)
{
    int cut = len >= cap;
    if (cut) {
        len = cap - 1;
        while (len && ((uint8_t)text[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(to, text, len);
    to[len] = 0;
    return cut;
}

static int64_t whole_of(enum hm_json token, const char *text)
{
    int64_t v;
    if ((token == HM_JSON_NUMBER || token == HM_JSON_STRING) && hm_decimal(text, 0, &v))
        return v;
    return HM_KINETO_NONE;
}

/* [x, y, z] */
static int read_three(struct hm_jsonin *j, int64_t v[3])
{
    enum hm_json token;
    for (int i = 0; (token = hm_jsonin_next(j)) != HM_JSON_ARRAY_END; i++) {
        if (i < 3)
            v[i] = whole_of(token, hm_jsonin_text(j, NULL));
        if (!hm_jsonin_skip(j, token))
            return 0;
    }
    return 1;
}

static int read_field(struct hm_jsonin *j, const struct field *f, struct hm_kineto_event *ev)
{
    char *to = (char *)ev + f->offset;
    enum hm_json token = hm_jsonin_next(j);
    size_t len;
    const char *text = hm_jsonin_text(j, &len);
    switch ((enum field_type)f->type) {
    case TEXT:
        if (token == HM_JSON_STRING || token == HM_JSON_NUMBER) {
            int cut = copy_text(to, f->cap, text, len);
            if (to == ev->name)
                ev->name_cut = cut;
        }
        break;
    case WHOLE:
        *(int64_t *)(void *)to = whole_of(token, text);
        break;
    case MICROSECONDS:
        if ((token != HM_JSON_NUMBER && token != HM_JSON_STRING) ||
            !hm_decimal(text, 3, (int64_t *)(void *)to))
            *(int64_t *)(void *)to = HM_KINETO_NONE;
        break;
    case THREE:
        if (token == HM_JSON_ARRAY)
            return read_three(j, (int64_t *)(void *)to);
        break;
    }
    return hm_jsonin_skip(j, token);
}

static const struct field *find_field(const struct field *f, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(f[i].key, key))
            return &f[i];
    return NULL;
}

static int read_args(struct hm_jsonin *j, struct hm_kineto_event *ev)
{
    enum hm_json token;
    while ((token = hm_jsonin_next(j)) == HM_JSON_KEY) {
        const struct field *f =
            find_field(arg_field, sizeof(arg_field) / sizeof(*arg_field), hm_jsonin_text(j, NULL));
        if (f ? !read_field(j, f, ev) : !hm_jsonin_skip(j, hm_jsonin_next(j)))
            return 0;
    }
    return token == HM_JSON_OBJECT_END;
}

static void clear(struct hm_kineto_event *ev)
{
    ev->ph[0] = ev->cat[0] = ev->name[0] = ev->label[0] = 0;
    ev->collective[0] = ev->dtype[0] = ev->group[0] = ev->group_ranks[0] = 0;
    ev->name_cut = 0;
    for (size_t i = 0; i < sizeof(event_field) / sizeof(*event_field); i++)
        if (event_field[i].type != TEXT)
            *(int64_t *)(void *)((char *)ev + event_field[i].offset) = HM_KINETO_NONE;
    for (size_t i = 0; i < sizeof(arg_field) / sizeof(*arg_field); i++)
        for (int k = 0; arg_field[i].type != TEXT && k < arg_field[i].cap / 8; k++)
            ((int64_t *)(void *)((char *)ev + arg_field[i].offset))[k] = HM_KINETO_NONE;
}

/* Behind the opening brace of an event. */
static int read_event(struct hm_jsonin *j, struct hm_kineto_event *ev)
{
    enum hm_json token;
    clear(ev);
    while ((token = hm_jsonin_next(j)) == HM_JSON_KEY) {
        const char *key = hm_jsonin_text(j, NULL);
        const struct field *f =
            find_field(event_field, sizeof(event_field) / sizeof(*event_field), key);
        int args = !strcmp(key, "args");
        if (f) {
            if (!read_field(j, f, ev))
                return 0;
            continue;
        }
        token = hm_jsonin_next(j);
        if (args && token == HM_JSON_OBJECT ? !read_args(j, ev) : !hm_jsonin_skip(j, token))
            return 0;
    }
    return token == HM_JSON_OBJECT_END;
}

static hm_status_t read_events(struct hm_jsonin *j, struct hm_kineto_head *head,
                               hm_kineto_visit_t visit, void *ctx)
{
    struct hm_kineto_event *ev = calloc(1, sizeof(*ev));
    if (!ev)
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    enum hm_json token;
    hm_status_t s = HM_OK;
    head->has_events = 1;
    while (!s && (token = hm_jsonin_next(j)) != HM_JSON_ARRAY_END) {
        if (token == HM_JSON_OBJECT ? !read_event(j, ev) : !hm_jsonin_skip(j, token))
            s = hm_jsonin_fail(j);
        else if (token == HM_JSON_OBJECT)
            s = visit(ctx, ev);
    }
    free(ev);
    return s;
}

/* An object with whole numbers and texts of interest. */
static int read_device(struct hm_jsonin *j, struct hm_kineto_device *d)
{
    enum hm_json token;
    *d = (struct hm_kineto_device){
        .id = HM_KINETO_NONE, .memory_bytes = 0, .major = 0, .minor = 0, .n_sm = 0};
    while ((token = hm_jsonin_next(j)) == HM_JSON_KEY) {
        const char *key = hm_jsonin_text(j, NULL);
        int64_t *to = !strcmp(key, "id")               ? &d->id
                      : !strcmp(key, "totalGlobalMem") ? &d->memory_bytes
                      : !strcmp(key, "computeMajor")   ? &d->major
                      : !strcmp(key, "computeMinor")   ? &d->minor
                      : !strcmp(key, "numSms")         ? &d->n_sm
                                                       : NULL;
        int name = !strcmp(key, "name");
        size_t len;
        token = hm_jsonin_next(j);
        const char *text = hm_jsonin_text(j, &len);
        if (to)
            *to = whole_of(token, text);
        else if (name && token == HM_JSON_STRING)
            copy_text(d->name, sizeof(d->name), text, len);
        if (!hm_jsonin_skip(j, token))
            return 0;
    }
    return token == HM_JSON_OBJECT_END;
}

static int read_devices(struct hm_jsonin *j, struct hm_kineto_head *head)
{
    enum hm_json token;
    while ((token = hm_jsonin_next(j)) != HM_JSON_ARRAY_END) {
        struct hm_kineto_device d;
        if (token != HM_JSON_OBJECT) {
            if (!hm_jsonin_skip(j, token))
                return 0;
            continue;
        }
        if (!read_device(j, &d))
            return 0;
        if (d.id != HM_KINETO_NONE && head->n_devices < HM_KINETO_MAX_DEVICES)
            head->device[head->n_devices++] = d;
    }
    return 1;
}

static int read_distributed(struct hm_jsonin *j, struct hm_kineto_head *head)
{
    enum hm_json token;
    while ((token = hm_jsonin_next(j)) == HM_JSON_KEY) {
        const char *key = hm_jsonin_text(j, NULL);
        int64_t *to = !strcmp(key, "rank")         ? &head->rank
                      : !strcmp(key, "world_size") ? &head->n_ranks
                                                   : NULL;
        token = hm_jsonin_next(j);
        if (to)
            *to = whole_of(token, hm_jsonin_text(j, NULL));
        if (!hm_jsonin_skip(j, token))
            return 0;
    }
    return token == HM_JSON_OBJECT_END;
}

static hm_status_t read_top(struct hm_jsonin *j, struct hm_kineto_head *head,
                            hm_kineto_visit_t visit, void *ctx)
{
    enum hm_json token = hm_jsonin_next(j);
    hm_status_t s = HM_OK;
    if (token == HM_JSON_ARRAY) { /* the events alone */
        s = read_events(j, head, visit, ctx);
        if (s)
            return s;
    } else if (token != HM_JSON_OBJECT) {
        return hm_jsonin_skip(j, token) ? HM_OK : hm_jsonin_fail(j);
    }
    while (token == HM_JSON_OBJECT && (token = hm_jsonin_next(j)) == HM_JSON_KEY) {
        const char *key = hm_jsonin_text(j, NULL);
        int events = !strcmp(key, "traceEvents"), devices = !strcmp(key, "deviceProperties");
        int distributed = !strcmp(key, "distributedInfo");
        int base = !strcmp(key, "baseTimeNanoseconds");
        token = hm_jsonin_next(j);
        int ok = 1;
        if (events && token == HM_JSON_ARRAY) {
            s = read_events(j, head, visit, ctx);
            if (s)
                return s;
        } else if (devices && token == HM_JSON_ARRAY) {
            ok = read_devices(j, head);
        } else if (distributed && token == HM_JSON_OBJECT) {
            ok = read_distributed(j, head);
        } else {
            int64_t v = base ? whole_of(token, hm_jsonin_text(j, NULL)) : HM_KINETO_NONE;
            if (v != HM_KINETO_NONE)
                head->base_ns = v;
            ok = hm_jsonin_skip(j, token);
        }
        if (!ok)
            return hm_jsonin_fail(j);
        token = HM_JSON_OBJECT;
    }
    return hm_jsonin_next(j) == HM_JSON_END ? HM_OK : hm_jsonin_fail(j);
}

hm_status_t hm_kineto_walk(const char *path, struct hm_kineto_head *head_p, hm_kineto_visit_t visit,
                           void *ctx)
{
    struct hm_jsonin *j;
    memset(head_p, 0, sizeof(*head_p));
    head_p->rank = head_p->n_ranks = HM_KINETO_NONE;
    hm_status_t s = hm_jsonin_open(path, &j);
    if (s)
        return s;
    s = read_top(j, head_p, visit, ctx);
    hm_jsonin_close(j);
    if (!s && !head_p->has_events)
        s = hm_fail(HM_E_DATA, path,
                    "no trace: it has no traceEvents; name the files that torch.profiler wrote");
    return s;
}
