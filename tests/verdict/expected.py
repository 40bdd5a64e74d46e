"""The right answer of every scenario, from hand calculation written beside each row.

Times in ms a step; T is the time of a step. Nothing here knows what the analyser says today;
NOT_YET names the rows on which it is known to be wrong, with the reason.
"""
MS, US = 1_000_000, 1_000
DEVICE = ("rank", "device")
QUIET = ("none", "undecided", "insufficient")

# gain: fraction of the analysed time, held to 2 % of itself, and no further finding beside it.
# says: in the verdict's words, mentions: anywhere in the report's. Tuples allow any of their
# members. Every job has one more step than said, the first, which is warm-up and not analysed.
TABLE = {
    # T 122; repaired 110: 12 / 122
    "u1": dict(status="straggler", kind=DEVICE, ids=[5], pattern="persistent", cause="slow_gpu",
               gain=12 / 122),
    # [100, 100, 112, 110] + 10: both repaired 122 -> 110, r2 alone -> 120, r3 alone -> 122
    "u2": dict(status="straggler", kind="ranks", ids=[2, 3], pattern="persistent",
               cause="slow_gpu", gain=12 / 122),
    # T 130; work is conserved: the mean of a step is (7 x 100 + 120) / 8 = 102.5, so 112.5
    "u3-work": dict(status="imbalance", kind="all", pattern="rotating", cause="more_work",
                    gain=17.5 / 130),
    # T 130; a pause is not conserved: 110 without
    "u3-pause": dict(status=("imbalance", "jitter"), kind="all", pattern="rotating",
                     cause="host_cpu", gain=20 / 130),
    # a stop costs 150, two in one step no more: the program prints how many steps are hit, of 250
    # of 400; 1 - (1 - 8 / 250)^32 = 65 % are expected (512 ranks, one stop in 500: 64 %)
    "u4": dict(status="jitter", kind="all", cause="host_cpu",
               gain=lambda said: 150 * said["hit"] / (250 * 400 + 150 * said["hit"])),
    "u4-descheduled": dict(status="jitter", kind="all", cause="host_descheduled",
                           gain=lambda said: 150 * said["hit"] / (250 * 400 + 150 * said["hit"])),
    # last in 200 of 200 by 0.03 of 400: 0.0075 %, below the floor of 0.5 %
    "u5": dict(status="none"),
    # node 2's clock is 0.8 ahead, but every all-reduce lasts 1.0 on every rank: nobody waits
    "u6": dict(status="none", problem="clock"),
    # T 10 x (12 + 1) + 20 = 150; repaired 10 x (10 + 1) + 20 = 130
    "u7": dict(status="straggler", kind=DEVICE, ids=[3], dim="tp", cause="slow_gpu",
               pattern="persistent", gain=20 / 150, caused_by=3),
    # the same 150 -> 130, for all of node 1; held at 500 of 700 W
    "u8": dict(status="straggler", kind="node", ids=list(range(8)), cause="gpu_config",
               pattern="persistent", gain=20 / 150, says="power"),
    # T = 7 x (4 + 8) + 3 x (3 + 6) + 12 = 123; even: 39 / 4 = 9.75 a stage, 11 x 9.75 = 107.25, of
    # which 3 / 11 = 29.25 is the bubble. Stage 3 is ranks 6 and 7. Messages and the gradients'
    # all-reduce add 0.12.
    "u9": dict(status="imbalance", kind="stage", ids=[6, 7], cause="more_work",
               pattern="persistent", gain=15.75 / 123.12, ledger=("bubble", 29.25 / 123.12)),
    # T = 200 + 100 + 0.4 + 200 + 0.4 + 100 + 10 = 610.8, without the input 410.8. The message of
    # 64 MiB goes in 0.4: 168 GB/s.
    "u11": dict(status="straggler", kind=DEVICE, ids=[0], cause="input", pattern="persistent",
                gain=200 / 610.8, message=(64 << 20, 0.4)),
    # T = 50 + 10 + 19 + 10 = 89; the work is conserved: 8900 / 8 tokens, 81.125
    "u12": dict(status="straggler", kind=DEVICE, ids=[6], cause="more_work", pattern="persistent",
                gain=7.875 / 89),
    # T = 180 + 50 + 20 + 10 = 260, with rank 7 repaired 180
    "u14": dict(status="straggler", kind=DEVICE, ids=[7], pattern="persistent", gain=80 / 260,
                grade="full", violations=0),
    "u14-empty": dict(status="straggler", kind=DEVICE, ids=[7], pattern="persistent",
                      gain=80 / 260, grade="full", violations=0),
    # T = 299.4 + 100 + 0.6 + 50 + 10 = 460
    "u15": dict(status="straggler", kind=DEVICE, ids=[9], cause="input", pattern="persistent",
                gain=299.4 / 460),
    "u15-unknown": dict(status="straggler", kind=DEVICE, ids=[9], cause="input",
                        pattern="persistent", gain=299.4 / 460, mentions="inferred"),
    # launches end at 40 and 90: T 90.003 + 40 = 130.003; launched alike, compute ends last: 100.
    "u17": dict(status="straggler", kind=DEVICE, ids=[1], cause="host_*", pattern="persistent",
                gain=30.003 / 130.003),
    # 80 of 400 in input on all, in the same steps
    "u19": dict(status="bottleneck", kind="all", cause="input", pattern="persistent", gain=0.20),
    # 8 of 64 steps take 600 instead of 200: mean 250, 400 x 8 / (64 x 250). The 50 us of the other
    # batches may count too: 0.05 x 56 / 3200 = 0.1 %.
    "u20": dict(status="bottleneck", kind="all", cause="input", pattern="periodic", gain=0.20,
                period=8),
    # 4 of 400 steps take 4400 instead of 400: 16 s of 176 s. A checkpoint is no straggler.
    "u21": dict(status="bottleneck", kind=DEVICE, ids=[0], cause="checkpoint", pattern="periodic",
                gain=16 / 176, period=100),
    # 120 in 30 of 100 steps of 400, in calls of the allocator
    "u22": dict(status="straggler", kind=DEVICE, ids=[4], cause="allocator", gain=36 / 436),
    # 45 s once in 200 steps of 0.4 s: nothing that goes on
    "u24": dict(status=("none", "straggler"), one_off=(2, 57, 45 / 125)),
    # +40 in 16 of 20 steps of 400, else -2 (then r0 is last and nothing is gained):
    # 640 of 20 x 400 + 640
    "u26": dict(status="straggler", kind=DEVICE, ids=[1], pattern="persistent", gain=640 / 8640),
    # there is nothing to compare, and it is no hang
    "u27": dict(status="insufficient", says="graph", no_findings=True),
    # 31 wait at #4711, two of them are ahead; rank 17 was killed 600 s before the end
    "u28": dict(status="hang", kind=DEVICE, ids=[17], says="4711", mentions="died|killed|signal"),
    # 1000 elements instead of 1024 in call 10
    "mismatch": dict(status="mismatch", kind=DEVICE, ids=[2], says="another size .*#10 of",
                     mentions="2"),
    # T 122 -> 110 in each attempt, on the same GPU
    "u29": dict(status="straggler", kind=DEVICE, ids=[6], cause="slow_gpu", gain=12 / 122,
                uuid=r"0*a$", mentions="attempt", all_present=True),
    # T 122 -> 110, by the facts that the driver tells of rank 9's GPU
    "u31-limit": dict(status="straggler", kind=DEVICE, ids=[9], cause="gpu_config",
                      pattern="persistent", gain=12 / 122, mentions="500"),
    "u31-shared": dict(status="straggler", kind=DEVICE, ids=[9], cause="gpu_shared",
                       pattern="persistent", gain=12 / 122, mentions="31337"),
    # +30 in steps 100 to 110 and 2 s once: the profiler's doing. It is said, and nobody is accused.
    "u32": dict(status=("none", "bottleneck"), cause=(None, "observer"), mentions="profiler"),
    # nothing wrong at all
    "even": dict(status="none", grade="full", clock_error=0),
    # r3 takes 20 more, for certain by the durations, but nothing ties the nodes' clocks together
    "two-nodes": dict(status=("undecided", "straggler"), grade="limited", only=[3]),
    # the same with clocks compared to 5 us: T 130 -> 110
    "two-nodes-probed": dict(status="straggler", kind=DEVICE, ids=[3], pattern="persistent",
                             cause="slow_gpu", gain=20 / 130, grade="full"),
    # three steps are not enough, whatever they hold
    "few": dict(status="insufficient"),

    # Twins: nearly the same, and another answer.
    # T 110 for 20 steps, then 122 for 20
    "from-step": dict(status="straggler", kind=DEVICE, ids=[5], pattern="from_step",
                      cause="slow_gpu", gain=240 / 4640, exact={"verdict.from_step": 21}),
    # 50 steps of 110, ten of 140
    "episode": dict(status="straggler", kind=DEVICE, ids=[5], pattern="episode",
                    gain=300 / 6900, exact={"verdict.from_step": 21, "verdict.to_step": 30}),
    # T = 1 + 8 x 4 + 8 x 8 + 1 + 2 = 100; with r2 slow 1 + 115.2 + 1 + 2.4 = 119.6
    "fsdp-slow": dict(status="straggler", kind=DEVICE, ids=[2], pattern="persistent",
                      cause="slow_gpu", gain=19.6 / 119.6),
    "fsdp-even": dict(status="none", grade="full"),
    # T = 40 + 80 + 5 = 125; with r1 slow 48 + 96 + 5 = 149
    "overlap-slow": dict(status="straggler", kind=DEVICE, ids=[1], pattern="persistent",
                         cause="slow_gpu", gain=24 / 149),
    "overlap-even": dict(status="none", grade="full"),
    "u7-even": dict(status="none", grade="full"),
    "u9-even": dict(status="none", grade="full"),
    # replica 1: 114.75, the longest way through its 64 operations; repaired 11 x 9 = 99; messages
    # and the all-reduce add 0.12. Its stage has no more work than the others.
    "u9-slow": dict(status="straggler", kind=DEVICE, ids=[5], cause="slow_gpu",
                    pattern="persistent", gain=15.75 / 114.87),
    # T = 0.05 + 100 + 200.4 + 200 + 0.4 + 100 + 10
    "u11-link": dict(status=("straggler", "bottleneck"), kind="link", ids=[0, 1], cause="network",
                     pattern="persistent", gain=200 / 610.85),
    # T = 65 + 10 + 13 + 10 = 98; slowness is not conserved: 80
    "u12-slow": dict(status="straggler", kind=DEVICE, ids=[6], cause="slow_gpu",
                     pattern="persistent", gain=18 / 98),
    "u15-even": dict(status="none"),
    "u19-one": dict(status="straggler", kind=DEVICE, ids=[3], cause="input", pattern="persistent",
                    gain=0.20),
    # T 140 -> 110; the thread's own samples tell the two apart
    "host-busy": dict(status="straggler", kind=DEVICE, ids=[2], cause="host_cpu",
                      pattern="persistent", gain=30 / 140),
    "host-crowded": dict(status="straggler", kind=DEVICE, ids=[2], cause="host_descheduled",
                         pattern="persistent", gain=30 / 140),
    # the recording ends in the middle of a step: nobody is missing anywhere
    "u28-cut": dict(status="none"),
    "u31-other": dict(status="straggler", kind=DEVICE, ids=[9], cause="slow_gpu",
                      pattern="persistent", gain=12 / 122),

    # The examples of single measures, times of e1 to e4 and e17 in us.
    # s = [100, 130, 180, 110], e = [221, 220, 222, 220]: L = 180, E1 = 220, E2 = 222; busbw
    # 4 MB x 2 x 3 / 4 / 42
    "e1": dict(status="insufficient", exact={
        "collectives.0.skew_ns": 80 * US, "collectives.0.last_rank": 2,
        "collectives.0.margin_ns": 50 * US, "collectives.0.core_ns": 40 * US,
        "collectives.0.wait_ns": [80 * US, 50 * US, 0, 70 * US],
        "collectives.0.last_start_to_last_end_ns": 42 * US, "collectives.0.bytes": 4000000,
        "ops.0.busbw_bps": 142.857e9}),
    # broadcast, root s = 100; r1 90 waits 10, r2 120 does not
    "e2": dict(status="insufficient", exact={"collectives.0.func": "Broadcast",
                                             "collectives.0.wait_ns": [0, 10 * US, 0]}),
    # wait [100,180), of which compute [90,150) hides 50
    "e3": dict(exact={"ranks.0.wait_ns": 80 * US, "ranks.0.stall_ns": 30 * US,
                      "ranks.0.transfer_ns": 20 * US, "ranks.1.wait_ns": 0}),
    # compute [0,40) and [80,95), communication [30,70) with L = 50, copy [65,75)
    "e4": dict(exact={"ranks.0.window_ns": 95 * US, "ranks.0.compute_ns": 55 * US,
                      "ranks.0.comm_ns": 40 * US, "ranks.0.overlap_ns": 10 * US,
                      "ranks.0.exposed_comm_ns": 30 * US, "ranks.0.memcpy_ns": 5 * US,
                      "ranks.0.idle_ns": 5 * US, "ranks.0.wait_ns": 20 * US,
                      "ranks.0.transfer_ns": 20 * US, "ranks.0.stall_ns": 10 * US}),
    # r1 waits 30 for r0, then r2 30 for r1, who is late only by what it waited: all r0's doing
    "e7": dict(exact={"ranks.0.wait_caused_ns": 20 * 30 * MS,
                      "ranks.0.wait_caused_indirect_ns": 20 * 30 * MS,
                      "ranks.1.wait_caused_ns": 0, "ranks.1.wait_caused_indirect_ns": 0,
                      "ranks.2.wait_caused_ns": 0, "ranks.2.wait_caused_indirect_ns": 0}),
    # compute [80, 60, 70, 50] of T 100, without transfers 45 + 45 = 90; busy 100
    "e10": dict(exact={"pop.0.parallel_eff": 0.65, "pop.0.load_balance": 0.8125,
                       "pop.0.comm_eff": 0.8, "pop.0.serialisation_eff": 80 / 90,
                       "pop.0.transfer_eff": 0.9, "pop.0.gpu_comm_eff": 0.8,
                       "pop.0.orchestration_eff": 1.0}),
    # T 140, 130, 170 over and over: 440; r2 repaired 110 + 130 + 110 = 350
    "e12": dict(status="straggler", kind=DEVICE, ids=[2], pattern="persistent", gain=90 / 440),
    # the wire takes 5 of 5 from rank 2 to 3, elsewhere 2.5: T 100 + 40, with the link repaired 120
    "e13": dict(status=("straggler", "bottleneck"), kind="link", ids=[2, 3], cause="network",
                pattern="persistent", gain=20 / 140),
    # T 100, 102, 98, 101, 99, 100 | 121, 119, 120, 122, 118, 120 in steps 1 to 12
    "e14": dict(status="none", trend=("time", 7, 100 * MS, 120 * MS)),
    # A #57 waits for r2, who waits in B #12 for r3, who waits in A #57
    "e15": dict(status="hang", kind="ranks", ids=[2, 3], mentions="order"),
    "e15-missing": dict(status="hang", kind=DEVICE, ids=[2], says=r"\b57\b"),
    # #57: all-reduce of 1024 twice; 1000 on r2, an all-gather on r3
    "e16": dict(status="mismatch", ids=[2, 3], mentions=r"(?s)\b1000\b.*AllGather"),
    # r0 [100,150], r1 [160,200] in one of 41, then in all
    "e17": dict(status="none", grade="limited", violations=1),
    "e17-all": dict(status="undecided", grade="none", violations=41, no_findings=True),

    # Runs in which nobody is at fault; what is missing or odd is said, and nothing is invented.
    "odd-nothing": dict(status="insufficient", no_findings=True),
    "odd-marks-only": dict(status="insufficient", no_findings=True),
    "odd-one-rank": dict(status="insufficient", no_findings=True),
    "odd-one-step": dict(status="insufficient", no_findings=True),
    # 20 of 60 steps have 11, the others nothing
    "odd-empty-steps": dict(status=QUIET, no_findings=True, total=(0.2, 0.24)),
    "odd-zero-kernels": dict(status=QUIET, no_findings=True),
    "odd-lonely": dict(status="none", total=(0.55, 0.65)),  # 40 x (10 + 4 + 1 + 1)
    "odd-empty-messages": dict(status=QUIET, no_findings=True),
    # 40 x 11, however the ranks number their steps
    "odd-uneven-marks": dict(status=QUIET, no_findings=True, total=(0.2, 0.45)),
    "odd-uneven-ends": dict(status=QUIET, no_findings=True, total=(0.2, 0.45)),
    "odd-names": dict(status="none", total=(0.4, 0.45)),
    "odd-numbers": dict(status=QUIET, no_findings=True, total=(0.4, 0.5)),
    # either the wild kernels are left out, or the run is not called good
    "odd-times": dict(status=QUIET, no_findings=True, good_only_with=(0.4, 0.5)),
}

NOT_YET = {
    "odd-times": "one kernel at the end of time empties all windows, and the grade is full",
    "odd-uneven-marks": "step numbers of the ranks are mixed: twice the time there was",
}
