/* SQLite, kept in one place. Box: merge/import. See nsysdb.h. */
#include "import/nsysdb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int hm_nsys_is_sqlite(const char *path)
{
    char head[16];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int yes = !fstat(fd, &st) && S_ISREG(st.st_mode) && read(fd, head, 16) == 16 &&
              !memcmp(head, "SQLite format 3", 16);
    close(fd);
    return yes;
}

#ifdef HM_HAVE_SQLITE
#include <sqlite3.h>

enum { MAX_COLUMNS = 40, NAME_BYTES = 64, TICK = 100000 };

struct hm_nsysdb {
    sqlite3 *db;
    char *path;
    int64_t bytes, budget; /* of virtual machine steps left for the walk in progress */
};
struct hm_nsys_row {
    sqlite3_stmt *stmt;
    int at[MAX_COLUMNS], n; /* column asked for -> column of the statement, -1 none */
};

static hm_status_t damaged(const struct hm_nsysdb *d, const char *why)
{
    return hm_fail(HM_E_DATA, d->path, "%s; export it again with nsys export --type sqlite", why);
}

static int tick(void *ctx)
{
    struct hm_nsysdb *d = ctx;
    d->budget -= TICK;
    return d->budget < 0;
}

/* "file:PATH?immutable=1" with everything in PATH escaped that an URI would act on. */
static char *uri_of(const char *path)
{
    static const char hex[] = "0123456789abcdef";
    static const char tail[] = "?mode=ro&immutable=1";
    char *uri = malloc(3 * strlen(path) + sizeof(tail) + 16);
    if (!uri)
        return NULL;
    char *p = stpcpy(uri, *path == '/' ? "file://" : "file:");
    for (const unsigned char *c = (const unsigned char *)path; *c; c++)
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            strchr("/._-", *c)) {
            *p++ = (char)*c;
        } else {
            *p++ = '%';
            *p++ = hex[*c >> 4];
            *p++ = hex[*c & 15];
        }
    memcpy(p, tail, sizeof(tail));
    return uri;
}

hm_status_t hm_nsysdb_open(const char *path, struct hm_nsysdb **db_p)
{
    struct stat st;
    if (stat(path, &st))
        return hm_fail(HM_E_DATA, path, "cannot be read: %s", strerror(errno));
    if (!hm_nsys_is_sqlite(path))
        return hm_fail(HM_E_DATA, path,
                       "no SQLite database; name what nsys export --type sqlite wrote");
    struct hm_nsysdb *d = calloc(1, sizeof(*d));
    char *uri = uri_of(path);
    if (!d || !uri || !(d->path = strdup(path))) {
        free(uri);
        free(d);
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    }
    d->bytes = st.st_size;
    int rc = sqlite3_open_v2(uri, &d->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    if (rc != SQLITE_OK) {
        hm_status_t s = damaged(d, "cannot be opened as a database");
        hm_nsysdb_close(d);
        return s;
    }
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, 1 << 24);
    sqlite3_exec(d->db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL);
    sqlite3_progress_handler(d->db, TICK, tick, d);
    *db_p = d;
    return HM_OK;
}

void hm_nsysdb_close(struct hm_nsysdb *d)
{
    if (!d)
        return;
    sqlite3_close(d->db);
    free(d->path);
    free(d);
}

/* About 100 steps of the machine a byte: a row of 10 bytes with 40 columns, sorted, needs less. */
static void refuel(struct hm_nsysdb *d)
{
    d->budget = 10000000 + 100 * (d->bytes < INT64_MAX / 200 ? d->bytes : INT64_MAX / 200);
}

int hm_nsysdb_has(struct hm_nsysdb *d, const char *table)
{
    sqlite3_stmt *q = NULL;
    int yes = 0;
    refuel(d);
    if (sqlite3_prepare_v2(d->db,
                           "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 "
                           "AND rootpage > 0",
                           -1, &q, NULL) == SQLITE_OK &&
        sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC) == SQLITE_OK)
        yes = sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    return yes;
}

static int has_column(struct hm_nsysdb *d, const char *table, const char *column)
{
    sqlite3_stmt *q = NULL;
    int yes = 0;
    refuel(d);
    if (sqlite3_prepare_v2(d->db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", -1, &q,
                           NULL) == SQLITE_OK &&
        sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_text(q, 2, column, -1, SQLITE_STATIC) == SQLITE_OK)
        yes = sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    return yes;
}

/* Names come from our own code, never from a file. */
static int make_query(struct hm_nsysdb *d, const char *table, const char *columns,
                      const char *order, struct hm_nsys_row *row, char *sql, size_t cap)
{
    size_t n = (size_t)snprintf(sql, cap, "SELECT ");
    int n_there = 0;
    for (const char *s = columns; *s && row->n < MAX_COLUMNS;) {
        char name[NAME_BYTES];
        size_t k = strcspn(s, " ");
        snprintf(name, sizeof(name), "%.*s", (int)k, s);
        s += k + strspn(s + k, " ");
        int there = has_column(d, table, name);
        row->at[row->n++] = there ? n_there : -1;
        if (there)
            n += (size_t)snprintf(sql + n, cap - n, "%s\"%s\"", n_there++ ? ", " : "", name);
    }
    n += (size_t)snprintf(sql + n, cap - n, " FROM \"%s\"", table);
    if (order && has_column(d, table, order))
        snprintf(sql + n, cap - n, " ORDER BY \"%s\"", order);
    return n_there;
}

hm_status_t hm_nsysdb_each(struct hm_nsysdb *d, const char *table, const char *columns,
                           const char *order, hm_nsys_visit_t visit, void *ctx)
{
    struct hm_nsys_row row = {0};
    char sql[4096], why[256];
    if (!hm_nsysdb_has(d, table) || !make_query(d, table, columns, order, &row, sql, sizeof(sql)))
        return HM_OK;
    refuel(d);
    hm_status_t s = HM_OK;
    int rc = sqlite3_prepare_v2(d->db, sql, -1, &row.stmt, NULL);
    for (int64_t i = 0; rc == SQLITE_OK && s == HM_OK; i++) {
        int step = sqlite3_step(row.stmt);
        if (step == SQLITE_DONE)
            break;
        if (step == SQLITE_ROW && i <= d->bytes)
            s = visit(ctx, &row);
        else
            rc = step == SQLITE_ROW ? SQLITE_CORRUPT : step;
    }
    if (rc == SQLITE_NOMEM) {
        s = hm_fail(HM_E_NOMEM, "import", "out of memory");
    } else if (rc != SQLITE_OK) {
        snprintf(why, sizeof(why), "damaged: table %s cannot be read (%s)", table,
                 rc == SQLITE_INTERRUPT ? "its pages do not end" : sqlite3_errstr(rc));
        s = damaged(d, why);
    }
    sqlite3_finalize(row.stmt);
    return s;
}

int64_t hm_nsys_int(const struct hm_nsys_row *row, int column)
{
    int at = column < row->n ? row->at[column] : -1;
    if (at < 0 || sqlite3_column_type(row->stmt, at) != SQLITE_INTEGER)
        return HM_NSYS_NONE;
    return sqlite3_column_int64(row->stmt, at);
}

const char *hm_nsys_text(const struct hm_nsys_row *row, int column)
{
    int at = column < row->n ? row->at[column] : -1;
    if (at < 0 || sqlite3_column_type(row->stmt, at) != SQLITE_TEXT)
        return "";
    const unsigned char *s = sqlite3_column_text(row->stmt, at);
    return s ? (const char *)s : "";
}

#else /* built without SQLite */

hm_status_t hm_nsysdb_open(const char *path, struct hm_nsysdb **db_p)
{
    (void)db_p;
    return hm_fail(HM_E_MISSING, path,
                   "hindmost was built without SQLite; install libsqlite3-dev and build it again");
}
void hm_nsysdb_close(struct hm_nsysdb *db)
{
    (void)db;
}
int hm_nsysdb_has(struct hm_nsysdb *db, const char *table)
{
    (void)db;
    (void)table;
    return 0;
}
hm_status_t hm_nsysdb_each(struct hm_nsysdb *db, const char *table, const char *columns,
                           const char *order, hm_nsys_visit_t visit, void *ctx)
{
    (void)db;
    (void)table;
    (void)columns;
    (void)order;
    (void)visit;
    (void)ctx;
    return HM_E_MISSING;
}
int64_t hm_nsys_int(const struct hm_nsys_row *row, int column)
{
    (void)row;
    (void)column;
    return HM_NSYS_NONE;
}
const char *hm_nsys_text(const struct hm_nsys_row *row, int column)
{
    (void)row;
    (void)column;
    return "";
}
#endif
