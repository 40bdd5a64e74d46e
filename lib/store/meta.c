/* Head of a rank file.
 *
 * Box: lib/store. The caller holds the HDF5 lock.
 */
#include "store/meta.h"

#include "store/schema.h"

#include <stdio.h>
#include <string.h>

static const char *const end_name[] = {"open", "clean",     "died",
                                       "term", "recovered", "no_mpi_finalize", "exec"};
static const char *const source_name[] = {"recorder", "kineto", "nsys", "inspector", "demo"};
enum {
    N_ENDS = sizeof(end_name) / sizeof(*end_name),
    N_SOURCES = sizeof(source_name) / sizeof(*source_name)
};

const char *hm_end_name(uint32_t end)
{
    return end < N_ENDS ? end_name[end] : "unknown";
}

const char *hm_source_name(uint32_t source)
{
    return source < N_SOURCES ? source_name[source] : "unknown";
}

static hid_t group(hid_t file, const char *name)
{
    if (H5Lexists(file, name, H5P_DEFAULT) > 0)
        return H5Gopen2(file, name, H5P_DEFAULT);
    return H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
}

int hm_meta_write(hid_t file, const struct hm_rank_meta *m, enum hm_end end)
{
    hid_t g = group(file, "meta");
    if (g < 0)
        return -1;
    int rc = 0;
    rc |= hm_h5_attr_i64(g, "schema", HM_SCHEMA_VERSION);
    rc |= hm_h5_attr_i64(g, "rank", m->rank);
    rc |= hm_h5_attr_i64(g, "n_ranks", m->n_ranks);
    rc |= hm_h5_attr_i64(g, "local_rank", m->local_rank);
    rc |= hm_h5_attr_i64(g, "pid", m->pid);
    rc |= hm_h5_attr_i64(g, "nonce", (int64_t)m->nonce);
    rc |= hm_h5_attr_i64(g, "start_raw", m->start_raw_ns);
    rc |= hm_h5_attr_i64(g, "start_real", m->start_real_ns);
    rc |= hm_h5_attr_i64(g, "domain_leader", m->domain_leader);
    rc |= hm_h5_attr_i64(g, "leader_index", m->leader_index);
    rc |= hm_h5_attr_text(g, "source", hm_source_name(m->source));
    rc |= hm_h5_attr_text(g, "host", m->host);
    rc |= hm_h5_attr_text(g, "boot_id", m->boot_id);
    rc |= hm_h5_attr_text(g, "timens", m->timens);
    rc |= hm_h5_attr_text(g, "run_id", m->run_id);
    rc |= hm_h5_attr_text(g, "program", m->program);
    rc |= hm_h5_attr_text(g, "end", hm_end_name(end));
    /* the settings, one a line: attributes cannot hold the NULs between them */
    char config[sizeof(m->config)];
    memcpy(config, m->config, sizeof(config));
    config[sizeof(config) - 1] = 0;
    for (size_t i = 0; i + 1 < sizeof(config) && (config[i] || config[i + 1]); i++)
        if (!config[i])
            config[i] = '\n';
    rc |= hm_h5_attr_text(g, "config", config);
    H5Gclose(g);
    return rc;
}

int hm_loss_write(hid_t file, const uint64_t lost[HM_N_LOST])
{
    hid_t g = group(file, "loss");
    if (g < 0)
        return -1;
    int rc = 0;
    for (int i = 0; i < HM_N_LOST; i++)
        rc |= hm_h5_attr_u64(g, hm_loss_key((enum hm_loss)i), lost[i]);
    H5Gclose(g);
    return rc;
}

static int name_index(const char *name, const char *const table[], int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, table[i]))
            return i;
    return 0;
}

hm_status_t hm_meta_read(hid_t file, struct hm_rank_meta *m, uint32_t *end_p,
                         uint64_t lost_p[HM_N_LOST])
{
    if (H5Lexists(file, "meta", H5P_DEFAULT) <= 0)
        return HM_E_DATA;
    hid_t g = H5Gopen2(file, "meta", H5P_DEFAULT);
    if (g < 0)
        return HM_E_DATA;
    memset(m, 0, sizeof(*m));
    int64_t v[9] = {0};
    v[7] = HM_NO_ID;
    char end[32] = "", source[32] = "";
    int rc = hm_h5_attr_get_i64(g, "schema", &v[0]);
    if (rc == 0 && v[0] != HM_SCHEMA_VERSION) {
        H5Gclose(g);
        return HM_E_VERSION;
    }
    rc |= hm_h5_attr_get_i64(g, "rank", &v[1]);
    rc |= hm_h5_attr_get_i64(g, "n_ranks", &v[2]);
    rc |= hm_h5_attr_get_i64(g, "local_rank", &v[3]);
    rc |= hm_h5_attr_get_i64(g, "pid", &v[4]);
    rc |= hm_h5_attr_get_i64(g, "nonce", &v[5]);
    rc |= hm_h5_attr_get_i64(g, "start_raw", &m->start_raw_ns);
    rc |= hm_h5_attr_get_i64(g, "start_real", &m->start_real_ns);
    rc |= hm_h5_attr_get_i64(g, "domain_leader", &v[6]);
    rc |= hm_h5_attr_get_text(g, "source", source, sizeof(source));
    rc |= hm_h5_attr_get_text(g, "host", m->host, sizeof(m->host));
    rc |= hm_h5_attr_get_text(g, "boot_id", m->boot_id, sizeof(m->boot_id));
    rc |= hm_h5_attr_get_text(g, "timens", m->timens, sizeof(m->timens));
    rc |= hm_h5_attr_get_text(g, "run_id", m->run_id, sizeof(m->run_id));
    rc |= hm_h5_attr_get_text(g, "program", m->program, sizeof(m->program));
    rc |= hm_h5_attr_get_text(g, "end", end, sizeof(end));
    if (hm_h5_attr_get_text(g, "config", m->config, sizeof(m->config)))
        m->config[0] = 0;
    (void)hm_h5_attr_get_i64(g, "leader_index", &v[7]); /* imported files have none */
    H5Gclose(g);
    if (rc)
        return HM_E_DATA;
    for (size_t i = 0; i < sizeof(m->config); i++)
        if (m->config[i] == '\n')
            m->config[i] = 0;
    m->rank = (int32_t)v[1];
    m->n_ranks = (int32_t)v[2];
    m->local_rank = (int32_t)v[3];
    m->pid = (int32_t)v[4];
    m->nonce = (uint64_t)v[5];
    m->domain_leader = (uint32_t)v[6];
    m->leader_index = (uint32_t)v[7];
    m->source = (uint32_t)name_index(source, source_name, N_SOURCES);
    *end_p = (uint32_t)name_index(end, end_name, N_ENDS);
    memset(lost_p, 0, HM_N_LOST * sizeof(*lost_p));
    if (H5Lexists(file, "loss", H5P_DEFAULT) > 0 &&
        (g = H5Gopen2(file, "loss", H5P_DEFAULT)) >= 0) {
        for (int i = 0; i < HM_N_LOST; i++) {
            int64_t n;
            if (hm_h5_attr_get_i64(g, hm_loss_key((enum hm_loss)i), &n) >= 0)
                lost_p[i] = (uint64_t)n;
        }
        H5Gclose(g);
    }
    return HM_OK;
}

int hm_rows_write(hid_t file, const uint64_t rows[HM_N_KINDS])
{
    hid_t g = group(file, "meta");
    hsize_t n = HM_N_KINDS;
    if (g < 0)
        return -1;
    hid_t space = H5Screate_simple(1, &n, NULL);
    hid_t a = H5Acreate2(g, "rows", H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    int rc = a >= 0 && H5Awrite(a, H5T_NATIVE_UINT64, rows) >= 0 ? 0 : -1;
    if (a >= 0)
        H5Aclose(a);
    if (space >= 0)
        H5Sclose(space);
    H5Gclose(g);
    return rc;
}

int hm_rows_read(hid_t file, uint64_t rows_p[HM_N_KINDS])
{
    hid_t a = H5Aopen_by_name(file, "meta", "rows", H5P_DEFAULT, H5P_DEFAULT);
    if (a < 0)
        return -1;
    hid_t space = H5Aget_space(a), type = H5Aget_type(a);
    hsize_t n = 0;
    int rc = -1;
    if (space >= 0 && type >= 0 && H5Sget_simple_extent_ndims(space) == 1 &&
        H5Sget_simple_extent_dims(space, &n, NULL) == 1 && n == HM_N_KINDS &&
        H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == sizeof(*rows_p))
        rc = H5Aread(a, H5T_NATIVE_UINT64, rows_p) >= 0 ? 0 : -1;
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    H5Aclose(a);
    return rc;
}
