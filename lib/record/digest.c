/* Three lines at the end of the job: steps, verdict, next command.
 *
 * Box: lib/record. Rank 0, in MPI_Finalize. One analysis, the tool's: it is started with a time
 * limit; without it the folder and the next command are all there is to say. To stderr.
 */
#include "record/record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DIGEST_MS = 3000, MAX_RANKS = 64 };

static int by_tool(void)
{
    char path[1024];
    char word[] = "report", option[] = "--digest";
    if (hm_self.who.n_ranks > MAX_RANKS || !hm_find_program("bin/hindmost", path))
        return 0;
    char *const argv[] = {path, word, option, hm_self.run_dir, NULL};
    struct hm_spawn what = {
        .path = path, .argv = argv, .envp = hm_spawn_env(), .fd = {-1, -1}, .wait_ms = DIGEST_MS};
    int32_t status = -1;
    return hm_spawn(&what, &status) == HM_OK && status == 0;
}

void hm_digest(void)
{
    char text[2300];
    if (!hm_awake() || !hm.config.digest || by_tool())
        return;
    int n = snprintf(text, sizeof(text),
                     "hindmost: recorded in %s\n"
                     "hindmost: next: hindmost report %s\n",
                     hm_self.run_dir, hm_self.run_dir);
    if (n > 0 && write(2, text, (size_t)n) < 0)
        return;
}
