/* Writes the rank files of one situation with a known right answer.
 *
 * Box: tests/verdict. Written apart from the analyser: it knows the event types and the rank file,
 * nothing of lib/analysis. Every situation is a schedule worked out by plain arithmetic
 * (schedule.h); the expected verdicts stand in verdict_test.py, from hand calculation.
 *
 *   scenario NAME DIR
 */
#include "scenarios.h"

#include <string.h>

int main(int argc, char **argv)
{
    const struct scenario *const all[] = {data_parallel_scenarios, model_parallel_scenarios,
                                          expert_scenarios,        host_scenarios,
                                          life_scenarios,          odd_scenarios,
                                          example_scenarios,       stuck_scenarios,
                                          network_scenarios,       overlap_scenarios};
    if (argc != 3)
        die("usage: scenario NAME DIR");
    for (size_t g = 0; g < sizeof(all) / sizeof(*all); g++)
        for (const struct scenario *s = all[g]; s->name; s++)
            if (!strcmp(argv[1], s->name)) {
                s->write(argv[2]);
                return 0;
            }
    die("no such scenario");
    return 1;
}
