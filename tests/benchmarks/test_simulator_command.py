"""The simulator's command: traces are read, what is wrong is told, what is done is kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.simulator import run as command
from benchmarks.simulator.workloads import azure, mooncake, servegen, source
from benchmarks.simulator.world import World

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOONCAKE = '{"timestamp": %d, "input_length": 900, "output_length": 5, "hash_ids": [7, 8]}\n'
SERVEGEN = "timestamp_s,input_tokens,output_tokens,client\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_azure_trace_is_read(tmp_path):
    """Seconds from the first arrival, with the fraction; context and generated tokens."""
    rows = f"{AZURE}2023-11-16 18:15:46.6805900,374,44\n"
    trace = azure(write(tmp_path / "a.csv", f"{rows}2023-11-16 18:15:50.9951690,396,109\n"))
    assert trace.arrivals == pytest.approx([0.0, 4.314579])
    assert trace.lengths == [(374, 44, ()), (396, 109, ())]


def test_mooncake_trace_is_read(tmp_path):
    """Milliseconds become seconds, moved by up to three; hashes are kept."""
    trace = mooncake(write(tmp_path / "m.jsonl", MOONCAKE % 0 + MOONCAKE % 60_000))
    assert 57.0 < trace.arrivals[1] - trace.arrivals[0] < 63.0
    assert trace.lengths[0] == (900, 5, (7, 8))


def test_servegen_trace_is_read(tmp_path):
    """Seconds, input and output tokens."""
    text = f"{SERVEGEN}0.5,210,552,13\n2.0,266,496,11\n"
    trace = servegen(write(tmp_path / "s.csv", text))
    assert (trace.arrivals, trace.lengths[1]) == ([0.0, 1.5], (266, 496, ()))


FIRST = "azure_2023_conv.csv"
SECOND = "mooncake_conversation.jsonl"
ROW = "2023-11-16 18:15:46.6805900,374,44\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "S1,S99"], "argument --only: there is no scenario 'S99', only S1, S2,"),
        (["--seeds", "0"], "argument --seeds: must be from 1 to 5, not 0"),
        (["--full", "--seeds", "11"], "argument --seeds: must be from 1 to 10, not 11"),
        (["--seeds", "two"], "argument --seeds: invalid int value: 'two'"),
        (["--jobs", "0"], "argument --jobs: must be at least 1, not 0"),
        (["--traces", "/nowhere"], "argument --traces: /nowhere is no folder"),
        (["--keep", "/proc/nowhere"], "argument --keep: "),
    ],
)
def test_bad_argument_is_one_clear_error(arguments, said, capsys):
    """It names the argument, the rule and the value, and nothing is run."""
    with pytest.raises(SystemExit) as left:
        command.options(arguments)
    usage, error = capsys.readouterr().err.split("error: ")
    assert (left.value.code, usage.startswith("usage:"), error.count("\n")) == (2, True, 1)
    assert error.startswith(said)


@pytest.mark.parametrize(
    ("conv", "said"),
    [
        (None, f"{FIRST} cannot be read: No such file or directory"),
        ("", f"{FIRST} holds no request"),
        (
            AZURE + ROW + ROW.replace("18:15", "18:16"),
            f"{FIRST} is cut off: it holds 2 requests, fewer than 5,000",
        ),
        (AZURE + ROW + ROW[:31], f"{FIRST}, line 3 is no request: zip() argument 2 is shorter"),
        (AZURE + ROW[10:], f"{FIRST}, line 2 is no request: Invalid isoformat string"),
        (ROW + ROW, f"{FIRST}, line 2 is no request: no 'TIMESTAMP'"),
        (AZURE + ROW + ROW.replace("16 18", "15 18"), f"{FIRST}: its requests are not in the"),
    ],
)
def test_trace_that_cannot_be_read_is_one_clear_error(conv, said, tmp_path, capsys):
    """It names the file, and the line if there is one."""
    write(tmp_path / SECOND, "".join(MOONCAKE % (1000 * at) for at in range(5000)))
    if conv is not None:
        write(tmp_path / FIRST, conv)
    with pytest.raises(SystemExit):
        command.options(["--traces", str(tmp_path)])
    error = capsys.readouterr().err.split("error: ")[1]
    assert error.startswith(f"argument --traces: {tmp_path}/{said}")
    assert error.count("\n") == 1


def test_json_trace_that_is_cut_off_is_told_with_its_line(tmp_path):
    """The copy ended in the middle of a line."""
    path = write(tmp_path / SECOND, (MOONCAKE % 0 + MOONCAKE % 1000)[:-20])
    with pytest.raises(command.TraceError, match="line 2 is no request: Expecting"):
        mooncake(path)


def test_finished_runs_are_kept_and_not_run_again(tmp_path, monkeypatch):
    """A second time nothing is simulated; a policy that is missing is run alone."""
    scenario = next(each for each in command.every_scenario() if each.key == "S5")
    [whole] = scenario.points
    makes = [make for make in whole.policies if make().name in ("random", "least KV")]
    point = replace(whole, requests=lambda *asked: whole.requests(*asked)[:40], policies=makes)
    few = replace(scenario, points=(point,))
    monkeypatch.setattr(command, "every_scenario", lambda: (few,))
    work = command.Work(None, "S5", 0, 1, tmp_path)
    first = command.run(work)
    [kept] = tmp_path.iterdir()
    told = json.loads(kept.read_text())
    told.pop("random")
    kept.write_text(json.dumps(told))
    names = []
    monkeypatch.setattr(command, "World", lambda *args: names.append(args[2].name) or World(*args))
    assert (command.run(work), names) == (first, ["random"])
    assert command.run(work) == first
    assert names == ["random"]


def test_generated_requests_need_no_folder():
    """Without traces the command runs on requests of its own."""
    assert command.options([]).traces is None
    assert source(None).name == "generated"
