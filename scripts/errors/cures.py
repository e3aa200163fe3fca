"""Says what to do about errors whose text does not say it: a part of the text, and a sentence.

A sentence is for errors that pass on what another library, another rank or another error said,
and for errors that leave the choice to the reader. If a text can say it in a few words, it
should.
"""

CURES = {
    # LibTorch, the system and other errors
    "<its text> in unit <unit><where><lost> <what to do>":
        "The text begins with that of LibTorch or of the model. What to do depends on it: see the "
        "table below.",
    "a pipe for a rank's stderr": "Raise the limit of open files: `ulimit -n`.",
    "a process for a rank": "Raise the limit of processes, `ulimit -u`, or free memory.",
    "a socket on 127.0.0.1": "Raise the limit of open files: `ulimit -n`.",
    "a pipe": "Raise the limit of open files: `ulimit -n`.",
    "threw for `<path>`: <its text>": "Replace or remove the file that the text names.",
    "encode_batch: text <first_failed>: <errors>":
        "The text ends with the error of `encode`, which says what to do.",
    "write_tokens: `<path>`: <its text>":
        "The text ends with the error of that file, which says what to do.",
    "<path>, line <line>, column `<column>`: <number>":
        "Correct the field, or let `dtype` of `CsvOptions` say how the column is read.",
    "std::bad_alloc": "Free memory on the machine, or train with a smaller batch.",
    # Programs
    "export_program: <text>.":
        "The text names the operator, the unit, and what to compute instead.",
    # Recorded steps
    "Capture<WholeStep>: this step cannot be recorded:":
        "Each line names the operator, the unit, and what to write instead: see the list below and "
        "docs/capture.md.",
    "Capture<WholeStep>: steps run as without it":
        "Its lines are those of the `BadModel`: see docs/capture.md, or leave `Capture<WholeStep>` "
        "out.",
    "Capture<EachUnit>: unit `":
        "Each line names what the unit does, and what to write instead: see the list below and "
        "docs/capture.md.",
    "Capture<EachUnit>: a unit runs as without it":
        "Its lines are those of the `BadModel`: see docs/capture.md, or leave `Capture<EachUnit>` "
        "out.",
    # Observers
    "Observe<FirstNonFinite>: a step failed, and its repeat":
        "Look for a buffer, a random number or a clock that the model reads, and that a step that "
        "throws does not put back.",
    # Data
    "a new loop tries it again, and seek(":
        "Correct the dataset for that sample, or skip the batch by `seek`.",
    "of its list, of the samples": "The text ends with the error of `pad`, which says what to do.",
    # Optimizers of LibTorch
    "LibTorchOptimizer: the options or the state of <optimizer>: <its text>":
        "Correct what the text names: a field of the options, or of the class of the state.",
    # Ranks
    "ranks: at <call>: <its text>": "Look at the error of the rank that the text names.",
    "ranks: at <due>: ": "Look at the error of the rank that the text names.",
    "The last exchanges of this rank were":
        "Look at the rank that the text names, and at the last exchange, which did not end. "
        "`compare_flight_records` says which rank was behind.",
    "make_store: <refusal>": "Look at the error of the rank that the text names.",
    "lost its connection to <host:port> while the ranks met":
        "Look at what rank 0, or torchrun's agent, printed before it ended.",
    "ranks: this rank takes no part any more":
        "Look at the first error of this rank, and let all ranks go on with the same call.",
    "launch: <rank, and how it ended>":
        "Look at the last lines of that rank, and at its first error.",
    "an exception that is not a std::exception": "Throw types that derive from `std::exception`.",
    "files: cannot": "What to do depends on the reason: see the table below.",
    "rank <rank>: <why>": "Look at the error of that rank, which the text ends with.",
    # Warnings
    "The state was saved by a trainer on the CPU":
        "Nothing has to be done; the device's random numbers go on from where they are.",
    "ikebana: a parameter of shape <shape> stays BFloat16":
        "Free memory before the trainer ends, or load the weights from a saved file.",
    "could not be restored, since memory ended":
        "Free memory before the trainer ends, or load the weights from a saved file.",
    "<reason> Looks for the state before it.":
        "Nothing has to be done; the text names the damaged file, which may be removed.",
    "<why> Loaded the state before it.":
        "Nothing has to be done; the text names the damaged file, which may be removed.",
    "Loaded the state before it, `<name>`.":
        "Nothing has to be done; the text names the damaged file, which may be removed.",
    "resume: skipped a state: <reason>":
        "Nothing has to be done; the text names the damaged file, which may be removed.",
    "An asynchronous save failed, and no code waited for it":
        "Call `wait` of what `save_async` returned, which throws that error.",
    "was not saved; training goes on": "Correct what the text ends with, such as a full disk.",
    "step: an exception ended it.": "Load the last saved state if the text says so.",
    "test_gpu is not built": "The text ends with what is missing, and what to install.",
    "InPlaceChecker: <name> writes in place to memory that backward still needs.":
        "Write to a copy (`x = x + y` in place of `x.add_(y)`), or after backward.",
    "<its text><where><lost>": "The text begins with that of the file, which says what to do.",
    "loss: <function> takes <takes>": "The text ends with what to return instead.",
    "estimate: <text>": "The text ends with what to do: a batch of real tensors, or real ranks.",
    # Scripts
    "<file>: <reason>.": "Correct the path, or the rights of the file.",
    "<folder> cannot be written": "Name another folder.",
    "gpu: <file> was not found": "Make a bundle where there is a network, by `scripts/gpu-bundle "
        "FOLDER`, copy it here, and let `IKEBANA_GPU_BUNDLE` name it.",
    "gpu: IKEBANA_GPU_BUNDLE is": "As above.",
    "setup: still missing": "Look at the end of the log that the text names.",
}
