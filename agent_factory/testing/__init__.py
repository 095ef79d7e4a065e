"""Tools for tests: scripted models, single hooks and layers, laws, recordings, snapshots.

>>> from agent_factory.testing import ScriptedChatModel, run_hook

Names are loaded at first use, because pytest imports this package at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from agent_factory.testing.counterexamples import CounterexampleReplay as CounterexampleReplay
    from agent_factory.testing.counterexamples import CounterexampleRun as CounterexampleRun
    from agent_factory.testing.counterexamples import replay_counterexample as replay_counterexample
    from agent_factory.testing.divergence import Divergence as Divergence
    from agent_factory.testing.divergence import areplay_with as areplay_with
    from agent_factory.testing.divergence import replay_with as replay_with
    from agent_factory.testing.fake_model import ModelCallRecord as ModelCallRecord
    from agent_factory.testing.fake_model import Reply as Reply
    from agent_factory.testing.fake_model import ScriptedChatModel as ScriptedChatModel
    from agent_factory.testing.fake_model import ScriptError as ScriptError
    from agent_factory.testing.guarantees import PlanViolation as PlanViolation
    from agent_factory.testing.guarantees import assert_plan as assert_plan
    from agent_factory.testing.harness import LayerRun as LayerRun
    from agent_factory.testing.harness import arun_hook as arun_hook
    from agent_factory.testing.harness import arun_layer as arun_layer
    from agent_factory.testing.harness import both_ways as both_ways
    from agent_factory.testing.harness import run_hook as run_hook
    from agent_factory.testing.harness import run_layer as run_layer
    from agent_factory.testing.histories import InvalidHistory as InvalidHistory
    from agent_factory.testing.histories import assert_valid_history as assert_valid_history
    from agent_factory.testing.laws import LAWS as LAWS
    from agent_factory.testing.laws import LawViolation as LawViolation
    from agent_factory.testing.laws import check_middleware as check_middleware
    from agent_factory.testing.prefix import PrefixChanged as PrefixChanged
    from agent_factory.testing.prefix import aassert_stable_prefix as aassert_stable_prefix
    from agent_factory.testing.prefix import assert_stable_prefix as assert_stable_prefix
    from agent_factory.testing.recorded_tools import record_agent as record_agent
    from agent_factory.testing.recordings import CassetteError as CassetteError
    from agent_factory.testing.recordings import CassetteMismatch as CassetteMismatch
    from agent_factory.testing.recordings import RecordingChatModel as RecordingChatModel
    from agent_factory.testing.recordings import ReplayChatModel as ReplayChatModel
    from agent_factory.testing.recordings import ReplayedError as ReplayedError
    from agent_factory.testing.recordings import record as record
    from agent_factory.testing.recordings import replay as replay
    from agent_factory.testing.replay_report import ReplayedRun as ReplayedRun
    from agent_factory.testing.replay_report import ReplayReport as ReplayReport
    from agent_factory.testing.replay_report import ReplayUsage as ReplayUsage
    from agent_factory.testing.replay_report import ReplayVerdict as ReplayVerdict
    from agent_factory.testing.replays import areplay_folder as areplay_folder
    from agent_factory.testing.replays import areplay_recording as areplay_recording
    from agent_factory.testing.replays import each_recording as each_recording
    from agent_factory.testing.replays import recordings_in as recordings_in
    from agent_factory.testing.replays import replay_folder as replay_folder
    from agent_factory.testing.replays import replay_recording as replay_recording
    from agent_factory.testing.savers import SaverReport as SaverReport
    from agent_factory.testing.savers import check_saver as check_saver
    from agent_factory.testing.strategies import each_stack as each_stack
    from agent_factory.testing.trajectories import TrajectoryMismatch as TrajectoryMismatch
    from agent_factory.testing.trajectories import assert_trajectory as assert_trajectory
    from agent_factory.testing.trajectory_patterns import PatternError as PatternError
    from agent_factory.testing.trajectory_steps import StepKind as StepKind
    from agent_factory.testing.trajectory_steps import Trajectory as Trajectory
    from agent_factory.testing.trajectory_steps import TrajectoryStep as TrajectoryStep
    from agent_factory.testing.trajectory_steps import trajectory_of as trajectory_of

# By module: a module is imported at the first use of a name.
_HOME = {
    ".counterexamples": "CounterexampleReplay CounterexampleRun replay_counterexample",
    ".divergence": "Divergence areplay_with replay_with",
    ".fake_model": "ModelCallRecord Reply ScriptError ScriptedChatModel",
    ".guarantees": "PlanViolation assert_plan",
    ".harness": "LayerRun arun_hook arun_layer both_ways run_hook run_layer",
    ".histories": "InvalidHistory assert_valid_history",
    ".laws": "LAWS LawViolation check_middleware",
    ".prefix": "PrefixChanged aassert_stable_prefix assert_stable_prefix",
    ".recorded_tools": "record_agent",
    ".recordings": (
        "CassetteError CassetteMismatch RecordingChatModel ReplayChatModel ReplayedError "
        "record replay"
    ),
    ".replay_report": "ReplayReport ReplayUsage ReplayVerdict ReplayedRun",
    ".replays": (
        "areplay_folder areplay_recording each_recording recordings_in replay_folder "
        "replay_recording"
    ),
    ".savers": "SaverReport check_saver",
    ".strategies": "each_stack",
    ".trajectories": "TrajectoryMismatch assert_trajectory",
    ".trajectory_patterns": "PatternError",
    ".trajectory_steps": "StepKind Trajectory TrajectoryStep trajectory_of",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
