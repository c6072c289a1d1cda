"""firn.sim: traces, clusters, runs, frames, policies in Python.

The conformance suite of policies (tests/policy/test_all.c) is in
build/tests/conformance.so together with the library; a child process loads it
in place of libfirn.so and gives it policies that are written here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
from firn import _simlib, sim  # noqa: E402

BUILD = Path(os.environ.get("FIRN_BUILD", ROOT / "build"))
QUICK = str(ROOT / "traces/quickstart.csv")
MIXED = dict(trace=str(ROOT / "traces/mixed.csv"),
             cluster=str(ROOT / "clusters/mixed.yaml"), profiles="builtin")


class Las(sim.Policy):
    """Least attained service, as HACKING.md has it in C."""

    name = "las"
    does = ("preempt", "move")
    ages = True

    def decide(self, view: sim.View, plan: sim.Plan) -> None:
        for job in sorted(view.jobs, key=lambda job: (job.served_gpu_s, job.id)):
            if not plan.give(job, job.gpus):
                plan.note(job, f"{plan.free} of {view.gpus_up} GPUs are free")


class Fifo(sim.Policy):
    """firn's fifo: a job that does not fit blocks those behind it."""

    name = "py-fifo"

    def decide(self, view: sim.View, plan: sim.Plan) -> None:
        plan.keep_all()
        for job in view.waiting:
            if not plan.give(job, job.gpus):
                break


class Grower(sim.Policy):
    """Elastic jobs grow by the forecast; a guest shares where both allow it."""

    name = "grower"
    does = ("preempt", "move", "resize", "share")
    needs = ("forecast",)

    def decide(self, view: sim.View, plan: sim.Plan) -> None:
        hosts = []
        for job in view.jobs:
            shared = bool(job.may_share)
            best = max(range(job.gpus_min, max(job.gpus_min, min(
                view.gpus_max(job), job.gpus_max)) + 1),
                key=lambda gpus: (view.rate(job, gpus) / gpus ** 0.5, -gpus))
            if plan.give(job, best, shared=shared):
                hosts += [job] if shared else []
            elif shared:
                any(len(plan.of(host)) == job.gpus and plan.share(job, host)
                    for host in hosts)


class Liar(Fifo):
    """Plans otherwise when it is asked again."""

    asked = 0

    def decide(self, view: sim.View, plan: sim.Plan) -> None:
        self.asked += 1
        for job in view.jobs[self.asked % 2:]:
            plan.give(job, job.gpus)


class Results(unittest.TestCase):
    """What a run gives."""

    def test_numbers_are_those_of_the_command(self) -> None:
        result = sim.run(QUICK, "pollux", "tiresias")
        done = subprocess.run([str(BUILD / "firn"), "sim", "-t", QUICK, "-c", "pollux",
                               "-p", "tiresias", "-o", "csv", "-q"],
                              capture_output=True, text=True, check=True)
        names, row = (line.split(",") for line in done.stdout.splitlines())
        theirs = dict(zip(names, row))
        for name in ("jct_mean_s", "jct_p99_s", "gpu_util_ratio", "rho_mean"):
            self.assertEqual(repr(result[name]), theirs[name])
        self.assertEqual(len(result.jobs), 400)
        mean = sum(job["jct_s"] for job in result.jobs) / 400
        self.assertAlmostEqual(mean, result["jct_mean_s"], places=6)
        self.assertGreater(len(result.timeline), 100)

    def test_options_and_settings_reach_the_library(self) -> None:
        base = sim.run(**MIXED, policy="icefrog")
        off = sim.run(**MIXED, policy="icefrog", freeze="off")
        alone = sim.run(**MIXED, policy="icefrog",
                        settings={"icefrog.sharing": False})
        self.assertEqual(len({r["jct_mean_s"] for r in (base, off, alone)}), 3)
        noisy = sim.run(QUICK, "pollux", "srtf", restart_s=600.0, seed=3,
                        noise={"iterations": 0.2})
        self.assertEqual((noisy["restart_s"], noisy["seed"]), (600.0, 3))
        self.assertEqual([group["name"] for group in base.groups][:2],
                         ["finetune", "language"])

    def test_errors_are_sentences(self) -> None:
        with self.assertRaisesRegex(sim.FirnError, "did you mean 'sjf'"):
            sim.run(QUICK, "pollux", "sjff")
        with self.assertRaisesRegex(sim.FirnError, "no such file|No such file"):
            sim.run("/none.csv", "pollux", "fifo")
        with self.assertRaisesRegex(TypeError, "no option 'speed'"):
            sim.run(QUICK, "pollux", "fifo", speed=2)
        with self.assertRaisesRegex(TypeError, "no part 'x'"):
            sim.run(QUICK, "pollux", "fifo", noise={"x": 1})
        with self.assertRaisesRegex(sim.FirnError, "Cluster.build"):
            sim.Cluster.build([{"gpus": 0, "type": "v100"}])

    def test_frames_where_pandas_is_there(self) -> None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(sim.FirnError, "pip install pandas"):
                sim.frame([])
            self.skipTest("pandas is not installed")
        results = [sim.run(QUICK, "pollux", name) for name in ("fifo", "sjf")]
        table = sim.frame(results).set_index("policy")
        self.assertLess(table.loc["sjf", "jct_mean_s"],
                        table.loc["fifo", "jct_mean_s"])
        self.assertEqual(len(results[0].frame()), 400)
        self.assertIn("gpus_held", results[0].frame("timeline").columns)


class Inputs(unittest.TestCase):
    """Traces and clusters that are loaded or built."""

    def test_a_loaded_trace_runs_as_its_file_does(self) -> None:
        trace = sim.Trace.load(MIXED["trace"])
        self.assertEqual(len(trace), 240)
        ours = sim.run(trace, MIXED["cluster"], "sia", profiles="builtin")
        theirs = sim.run(**MIXED, policy="sia")
        self.assertEqual(ours["jct_mean_s"], theirs["jct_mean_s"])
        self.assertEqual(ours["trace"], "mixed")

    def test_a_built_trace_and_cluster(self) -> None:
        cluster = sim.Cluster.build([{"count": 2, "gpus": 4, "type": "v100"},
                                     {"gpus": 8, "type": "a100"}], name="mine")
        self.assertEqual((cluster.name, len(cluster)), ("mine", 16))
        self.assertEqual(cluster.nodes[2]["type"], "a100")
        self.assertEqual([kind["ngpus"] for kind in cluster.types], [8, 8])
        trace = sim.Trace([
            {"name": "later", "submit_s": 50, "gpus": 16, "duration_s": 10.0},
            {"name": 'odd, "name"', "submit_s": 0, "gpus": 8, "duration_s": 100.0,
             "types": "v100", "may_share": True}])
        result = sim.run(trace, cluster, "fifo")
        ends = {job["name"]: job["end_s"] for job in result.jobs}
        self.assertEqual(ends, {'odd, "name"': 100, "later": 110})
        with self.assertRaisesRegex(ValueError, "has no gpus"):
            sim.Trace([{"submit_s": 0, "duration_s": 1}])


class Policies(unittest.TestCase):
    """Policies written in Python."""

    def test_fifo_in_python_is_fifo_in_c(self) -> None:
        policy = Fifo()
        ours = sim.run(QUICK, "pollux", policy)
        theirs = sim.run(QUICK, "pollux", "fifo")
        for name in ("jct_mean_s", "makespan_s", "rounds", "restarts"):
            self.assertEqual(ours[name], theirs[name])
        self.assertEqual(policy.decide_calls, ours["rounds"])

    def test_forecasts_sharing_and_sizes(self) -> None:
        result = sim.run(**MIXED, policy=Grower())
        self.assertEqual(result["jobs"], 240)
        self.assertGreater(result["restarts"], 50)

    def test_what_a_policy_raises_is_raised_by_run(self) -> None:
        class Broken(sim.Policy):
            def decide(self, view: sim.View, plan: sim.Plan) -> None:
                raise ZeroDivisionError("in the policy")

        with self.assertRaisesRegex(ZeroDivisionError, "in the policy"):
            sim.run(QUICK, "pollux", Broken())

    def test_an_interrupt_ends_the_run(self) -> None:
        class Interrupted(Fifo):
            def decide(self, view: sim.View, plan: sim.Plan) -> None:
                os.kill(os.getpid(), signal.SIGINT)
                super().decide(view, plan)

        policy = Interrupted()
        with self.assertRaises(KeyboardInterrupt):
            sim.run(QUICK, "pollux", policy)
        self.assertLess(policy.decide_calls, 3)

    def test_a_plan_that_was_not_declared_is_refused(self) -> None:
        class Undeclared(Las):
            does = ()

        with self.assertRaisesRegex(sim.FirnError, "las"):
            sim.run(QUICK, "pollux", Undeclared())
        with self.assertRaisesRegex(ValueError, "does has 'jump'"):
            Undeclared.does = ("jump",)
            sim.run(QUICK, "pollux", Undeclared())

    def test_many_runs_on_several_processes(self) -> None:
        tasks = [dict(trace=QUICK, cluster="pollux", policy=policy)
                 for policy in ("fifo", Fifo(), "srtf", "none")]
        done = sim.run_many(tasks, workers=3, errors="return")
        self.assertEqual(done[0]["jct_mean_s"], done[1]["jct_mean_s"])
        self.assertEqual(len(done[1].jobs), 400)
        self.assertIsInstance(done[3], sim.FirnError)
        with self.assertRaises(sim.FirnError):
            sim.run_many(tasks[3:])


class Conformance(unittest.TestCase):
    """The suite that every policy of firn has to pass."""

    def failures(self, name: str) -> tuple[int, str]:
        suite = BUILD / "tests/conformance.so"
        if not suite.exists():
            self.skipTest("conformance.so is not built")
        done = subprocess.run([sys.executable, __file__, "--conformance", name],
                              env={**os.environ, "FIRN_LIB": str(suite),
                                   "FIRN_QUICK": "1"},
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_policies_in_python_pass(self) -> None:
        for name in ("Las", "Fifo", "Grower"):
            failed, output = self.failures(name)
            self.assertEqual(failed, 0, output)

    def test_a_policy_that_plans_otherwise_when_asked_again_fails(self) -> None:
        failed, output = self.failures("Liar")
        self.assertGreater(failed, 0)
        self.assertIn("and asked again", output)


def conformance(name: str) -> int:
    """In a child: the number of cases that fail."""
    policy = globals()[name]()
    made = policy.definition()
    failed = int(_simlib.lib().conformance_of(ctypes.byref(made)))
    policy.reraise()
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--conformance"]:
        sys.exit(conformance(sys.argv[2]))
    unittest.main()
