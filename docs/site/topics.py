"""What is public, and on which page of the reference it is described.

A name in namespace ikebana outside of detail, bridge and refuse belongs to the first topic that
names it, or whose path its header begins with, or it is internal. One that is neither is an error.
"""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Topic:
    page: str  # the file name of its page in the reference
    title: str
    guides: tuple  # the pages that explain how these names are used
    paths: tuple = ()  # beginnings of headers' paths, relative to include/ikebana
    names: tuple = ()  # single names, also of other headers
    intro: str = ""


TOPICS = [
    Topic("trainer", "Trainer", ("docs/tutorial.md", "docs/step.md", "README.md"), ("trainer.hpp",),
          intro="The class that trains: a model and a recipe."),
    Topic("any_trainer", "AnyTrainer and Recipes", ("docs/any_trainer.md",), ("any_trainer/",),
          intro="A trainer whose model and recipe are no longer in its type, and recipes that a "
          "program chooses by name while it runs."),
    Topic("model", "Models, units and losses",
          ("docs/objective.md", "docs/step.md", "docs/architecture.md", "README.md"),
          ("loss.hpp", "model.hpp", "run/", "grammar/units.hpp", "core/not_trained.hpp"),
          intro="What a model declares, what its loss is given, and what it returns."),
    Topic("report", "Reports", ("docs/step.md", "docs/evaluate.md", "docs/offload.md"),
          ("report.hpp",),
          intro="What a step, an epoch and an evaluation return."),
    Topic("errors", "Error classes", ("docs/errors.md",), ("error.hpp",),
          intro="Every error of the library derives from `Error`. A text says what, where and "
          "the cure."),
    Topic("recipe", "Recipes, axes and null choices", ("README.md", "docs/architecture.md", "docs/accumulate.md"),
          ("core/off.hpp",), ("axis::", "Dynamic", "Fit"),
          intro="The axes of a recipe, and the choice of each that leaves things as they are."),
    Topic("precision", "Precision", ("docs/precision.md",), ("precision/",),
          ("Precision", "CPUProducts"),
          intro="The dtypes that a trainer computes in and stores weights in: `Trainer{model, "
          "AdamW{}, Precision<BF16>{}}`."),
    Topic("checkpoint", "Activation checkpointing", ("docs/checkpoint.md",), ("checkpoint/",),
          ("Checkpoint", "Every", "Segments", "Only", "Budget", "ActivationBudget"),
          intro="Which activations are dropped after forward and computed again in backward: "
          "`Trainer{model, AdamW{}, Checkpoint<Full>{}}`. No choice changes a bit of the "
          "result."),
    Topic("accumulate", "Microbatches", ("docs/accumulate.md",), ("accumulate/",),
          intro="How many microbatches make one update: `Trainer{model, AdamW{}, "
          "Accumulate<8>{}}`."),
    Topic("optimizer", "Optimizers", ("docs/optimizer.md",),
          ("optimizer/", "model/rule.hpp"),
          intro="An optimizer is a policy of the recipe: `Trainer{model, AdamW{.lr = 3e-4}}`. "
          "Values of a group replace those of the optimizer for the parameters that its rule "
          "matches."),
    Topic("schedule", "Schedules", ("docs/schedule.md",), ("schedule/",),
          intro="A schedule is a policy of the recipe, beside the optimizer: `Trainer{model, "
          "AdamW{.lr = 3e-4}, CosineAnnealingLR{.T_max = 1000}}`. The base rate is the `lr` of the "
          "optimizer or of a group; steps count from 0."),
    Topic("objective", "Objectives", ("docs/objective.md",), ("objective/",),
          intro="A policy that computes the loss of a model which has only a `forward`: "
          "`Trainer{model, CrossEntropyLoss{}, AdamW{}}`. Names and defaults are those of "
          "`torch.nn`; each returns a sum and a count, by which the step divides."),
    Topic("clip", "Clipping and checks of gradients", ("docs/clip.md",), ("clip/",),
          intro="What is done to all gradients between backward and the update, and what is "
          "checked. A recipe may have several, which work in the order in which it names them."),
    Topic("average", "Averages of the weights", ("docs/average.md",), ("average/",),
          intro="An average of the weights over steps, with which a trainer evaluates and which it "
          "exports."),
    Topic("freeze", "Frozen parameters", ("docs/freeze.md",), ("freeze/",),
          intro="Which parameters are not trained."),
    Topic("profile", "Profiles", ("docs/profiler.md",),
          ("observe/profile", "observe/profiler", "observe/range"), ("Observe<Profile>",),
          intro="Which operators, units and phases of a step take the time. A program includes "
          "`ikebana/observe/profile.hpp`."),
    Topic("profiling", "Profiling a training", ("docs/profiling.md",), ("profiling/",),
          intro="A training profiled in one call, what to change, and a report of it. A program "
          "includes `ikebana/profiling.hpp`."),
    Topic("observe", "Observing a step", ("docs/observe.md", "docs/memory.md"),
          ("observe/", "bridge/operator_cost.hpp"),
          ("Observe", "PhaseSeconds", "StepThroughput"),
          intro="What a report says besides the loss, where the time of a training goes, and how "
          "long a call takes."),
    Topic("device", "Device", ("docs/devices.md", "docs/gpu.md"), ("device/",),
          intro="Where the model is trained."),
    Topic("layout", "Memory layout", ("docs/layout.md",), ("layout/",), ("Layout",),
          intro="How the elements of tensors of four dimensions lie in memory."),
    Topic("offload", "Offloading", ("docs/offload.md",), ("offload/",), ("Offload",),
          intro="What is offloaded is a policy of the recipe: `Trainer{model, AdamW{}, "
          "Offload<CPU>{}}`."),
    Topic("shard", "Several ranks", ("docs/shard.md",), ("shard/",), ("Shard", "HSDP", "StopWish"),
          intro="Training on several ranks, each a process. A program includes "
          "`ikebana/shard.hpp`."),
    Topic("capture", "Recorded steps", ("docs/capture.md",), ("capture/",), ("Capture",),
          intro="Forward and backward of a step, recorded once and replayed afterwards: "
          "`Trainer{model, AdamW{}, Capture<WholeStep>{}}`. A program includes "
          "`ikebana/capture.hpp`."),
    Topic("logging", "Loggers", ("docs/logging.md", "docs/fit.md", "docs/from_pytorch.md"),
          ("loggers/", "fit/logger.hpp", "fit/log_columns.hpp", "fit/csv_logger.hpp"),
          intro="What writes the steps and epochs of a training to files. Those besides CSVLogger "
          "are in `ikebana/loggers.hpp`."),
    Topic("fit", "fit", ("docs/fit.md", "docs/from_pytorch.md", "docs/state.md", "docs/data.md"),
          ("fit/",),
          intro="The options of `Trainer::fit`, and what it uses: the progress bar, early "
          "stopping."),
    Topic("evaluate", "Evaluation and metrics", ("docs/evaluate.md",), ("evaluate/",),
          intro="Metrics for `Trainer::evaluate` and for the validation of `fit`."),
    Topic("metrics", "Metrics", ("docs/metrics.md", "docs/evaluate.md"), ("metrics",),
          intro="Metrics for `Trainer::evaluate` and for the validation of `fit`. A program includes "
          "`ikebana/metrics.hpp`."),
    Topic("batch", "Batches", ("docs/data.md", "docs/tensors.md", "docs/step.md"),
          ("batch/", "batch.hpp"),
          intro="What is done with the rows of a batch, which may be any struct, pair, tuple, "
          "vector or map of tensors, and batches of samples that differ in length."),
    Topic("data", "Datasets and the loader", ("docs/data.md",), ("data/",),
          intro="Datasets, and the loader that makes batches of them and resumes at the exact "
          "sample."),
    Topic("state", "Saved states, weights and files of tensors",
          ("docs/state.md", "docs/tensors.md"), ("state/",),
          intro="What a trainer saves and loads: whole states, which resume to the bit, and "
          "weights alone; and tensors of your own."),
    Topic("programs", "Programs of torch.export", ("docs/programs.md", "docs/production.md"),
          ("program/",),
          intro="Models that were written in Python and are trained here, and models that are "
          "written here and opened in Python. A program includes `ikebana/program.hpp`."),
    Topic("memory", "Memory: estimates and tools", ("docs/memory_tools.md", "docs/memory.md"),
          ("memory/", "advice/", "estimate", "detail/bytes.hpp", "bridge/memory_facts.hpp"),
          ("MemoryLimit",),
          intro="How much memory a recipe will take, where memory went, and tools against its "
          "waste and against writes that break backward."),
    Topic("program", "Programs", ("docs/production.md",), ("program.hpp", "program/"),
          intro="Models as programs of torch.export, which Python and C++ open without the model's "
          "code. A program includes `ikebana/program.hpp`."),
    Topic("pieces", "Pieces for a loop of your own", ("docs/pieces.md",),
          ("pieces/",), ("pieces::",),
          intro="Policies alone, in namespace `ikebana::pieces`, for a loop without a trainer. A program "
          "includes `ikebana/pieces.hpp`, or the header of the piece."),
    Topic("files", "Files and caches", ("docs/data.md", "docs/tables.md", "docs/shards.md"),
          ("files/",),
          intro="Datasets of files: `<ikebana/data.hpp>` includes them."),
    Topic("samplers", "Samplers and streams", ("docs/samplers.md",), ("samplers/", "streams/"),
          intro="Which samples an epoch has, in which order, and streams of unknown length."),
    Topic("images", "Images", ("docs/images.md", "docs/augmentation.md"), ("images/",),
          intro="Images decoded and augmented, by the component `ikebana::images`: "
          "`<ikebana/images.hpp>` includes it."),
    Topic("tokenizer", "Tokenizers", ("docs/tokenizer.md",), ("tokenizer/",),
          intro="Tokenizers of Hugging Face, by the component `ikebana::tokenizer`."),
    Topic("parquet", "Parquet and Arrow", ("docs/tables.md",), ("parquet/",),
          intro="Files of Parquet and Arrow, by the component `ikebana::parquet`."),
    Topic("modules", "Modules", ("docs/modules.md",), ("modules/",),
          intro="Layers for models, in namespace `ikebana::modules`, each with a header of its own "
          "that works without a trainer."),
    Topic("hooks", "Hooks and mechanisms", ("docs/step.md", "docs/extending.md", "docs/contributing.md"), ("hooks",),
          ("Mechanism", "RankGroup", "OneRank", "OneRankGroup", "SingleRank", "Ranks",
           "TensorsOfRanks", "Slice", "RowRange", "rows_of_rank", "DeferredCheck", "CutParameter",
           "readable", "momentum_of", "GroupedOptimizer", "PerParameterOptimizer", "Bucket",
           "GroupNumbers", "Slot", "ParameterUpdate", "Scratch"),
          intro="For authors of policies: what a mechanism overrides, and what it is given. A number "
          "before a comment is that of the place in [step.md](../docs/step.md) where a step asks "
          "the hook."),
]

# Names of other namespaces that namespace ikebana has by a using-declaration.
ALIASES = {"ikebana::bridge::MemoryLimit": "MemoryLimit",
           "ikebana::bridge::AutocastScope": "pieces::AutocastScope",
           **{f"ikebana::detail::{name}": name
              for name in ("DeferredCheck", "CutParameter", "GroupedOptimizer",
                           "PerParameterOptimizer", "Bucket", "GroupNumbers", "Slot",
                           "ParameterUpdate", "Scratch", "Json", "Json::ParseError")}}

# Public members of public types that only other parts of the library call. `images::*` are all
# types of that namespace.
HIDDEN = {
    "AdamW8bit": ("in_8_bits",),
    "CutParameter": ("CutParameter",),
    "ParameterUpdate": ("ParameterUpdate", "is_divided"),
    "Scratch": ("reserve", "release", "clear"),
    "DeferredCheck": ("take_recorded", "check", "undo", "Recorded", "Raise"),
    "ProcessGroup": ("members",),
    "Ragged": ("each_part",),
    "ArrowRow": ("ArrowRow",),
    "Sampler": ("Sampler",),  # its class says what becomes one
    # For authors of transforms: how a batch, boxes and masks follow, and the name in errors.
    "images::*": ("name", "image_only", "apply_each", "apply_boxes", "apply_masks"),
}

# What the parts of the library need from each other, and no program writes.
INTERNAL_PATHS = ("grammar/", "checks/", "core/", "parameters/", "posix/", "ranks/", "detail/",
                  "step.hpp", "bridge/")
INTERNAL = re.compile(r"""
    Mechanism<.*|Mechanisms.*
    |axis_of.*|fit|evaluate|SaveAndLoad
    |AnyTrainer::.*|PendingSave::Shared|MemoryHistory::.*|InPlaceChecker::Parts
    |CSVLogger::File|TensorBoardLogger::Events|DataLoader::Iterator|Permutation|DataLoader<Dataset,\ Collate>
    |RankState|StateRows
    |HooksOf|UnitsOf<Module>|UnitsOf<torch::nn::SequentialImpl>|AsyncSaver|StateFolder
    |modules::Rotary::Tables|modules::name|modules::check_sampling|Without<axis::objective>
    |HasMemPools|LoaderPosition
    |Sampler::(Chooses|Holder)|WeightedSampler::Cell|RamCache::Shared|StreamLoader::Iterator
    |ProgramModule|ProgramValues|ProgramUnitImpl|ProgramUnit
    """, re.X)
