// Compares two results of a suite and says if anything got slower.
//   bazel run //bench:regress -- --old=out/suite/before --new=out/suite/quick
//   bazel run //bench:regress -- --new=out/suite/quick              # with the stored baseline
//   bazel run //bench:regress -- --old_program=/tmp/before --new_program=bazel-bin/bench/suite
// The last command runs both programs in turns on this machine, which finds the smallest changes.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/regression/regression.h"
#include "bench/regression/run_in_turns.h"
#include "bench/suite_runner/suite_results.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/results/origin.h"
#include "core/report/results/results.h"
#include "gflags/gflags.h"

DEFINE_string(old, "",
              "results to compare with: the folder of a suite's results, or its results.json");
DEFINE_string(new, "", "results to judge: the folder of a suite's results, or its results.json");
DEFINE_string(
    baselines, "bench/results/baselines",
    "folder of stored baselines, <machine class>/<suite>.json, to compare with if --old is "
    "empty");
DEFINE_bool(store, false, "make --new the baseline of its machine class and suite");
DEFINE_string(old_program, "",
              "program //bench:suite without the change, run in turns with --new_program");
DEFINE_string(new_program, "",
              "program //bench:suite with the change, run in turns with --old_program");
DEFINE_string(suite, "gate", "name or path of the suite that both programs run");
DEFINE_string(old_flags, "", "further flags for the old program, separated by spaces");
DEFINE_string(new_flags, "", "further flags for the new program, separated by spaces");
DEFINE_bool(
    own_profiles, false,
    "let each program plan from its own profile, which is needed if they divide a model into "
    "layers differently; otherwise both plan from one, so that noise cannot give them "
    "different plans");
DEFINE_int32(
    rounds, 12,
    "maximum number of rounds, an even number, in which the programs run the suite until a "
    "slowdown of 5 % is found or ruled out");
DEFINE_string(out, "", "folder for the programs' results; empty: out/regress");
DEFINE_double(confidence, 0.99, "probability that no result is called slower or faster by chance");
DEFINE_double(tolerance, 0.01,
              "fraction by which a result may be slower without being a regression");
DEFINE_double(
    tolerance_apart, 0.05,
    "fraction by which a result that was not measured in turns may be slower without being a "
    "regression");
DEFINE_bool(other_machines, false, "compare results of different machine classes");
DEFINE_string(markdown, "", "also write the verdict to this file, as Markdown");
FLAG_RANGE(rounds, 2, 1'000);
FLAG_RANGE(confidence, 0, 1);
FLAG_RANGE(tolerance, 0, 10);
FLAG_RANGE(tolerance_apart, 0, 10);

namespace dpipe::bench {
namespace {

constexpr int kPass = 0;

absl::StatusOr<Results> ReadResults(const std::string& path) {
  const std::string file = IsFolder(path) ? path + "/results.json" : path;
  DPIPE_ASSIGN_OR_RETURN(const std::string json, ReadFile(file));
  auto results = report::ResultsFromJson(json);
  if (results.ok() && results->cases().empty())
    return absl::InvalidArgumentError(file + ": no case");
  if (results.ok()) return results;
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", results.status().message()));
}

// Returns the machine, with its GPUs if any case ran on them.
const MachineInfo& MachineOf(const Results& results) {
  for (const CaseResult& one : results.cases()) {
    if (!one.machine().gpus().empty()) return one.machine();
  }
  return results.cases(0).machine();
}

std::string BaselinePath(const Results& results) {
  return absl::StrCat(OutputPath(FLAGS_baselines), "/", report::MachineClass(MachineOf(results)),
                      "/", results.benchmark(), ".json");
}

SuiteProgram ProgramOf(int i, const std::string& folder) {
  SuiteProgram program;
  program.name = i == 0 ? "old" : "new";
  program.path = UserPath(i == 0 ? FLAGS_old_program : FLAGS_new_program);
  program.log_path = absl::StrCat(folder, "/", program.name, ".log");
  program.arguments = {"--suite=" + FLAGS_suite, "--fresh",
                       absl::StrCat("--out=", folder, "/", program.name)};
  if (!FLAGS_own_profiles) program.arguments.push_back("--profiles=" + folder + "/profiles");
  const std::string& flags = i == 0 ? FLAGS_old_flags : FLAGS_new_flags;
  for (const auto flag : absl::StrSplit(flags, ' ', absl::SkipEmpty())) {
    program.arguments.emplace_back(flag);
  }
  return program;
}

absl::Status CheckMachines(const Results& old_results, const Results& new_results) {
  const std::string old_class = report::MachineClass(MachineOf(old_results));
  const std::string new_class = report::MachineClass(MachineOf(new_results));
  if (old_class == new_class || FLAGS_other_machines) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the old results are of machine class ", old_class, ", the new ones of ",
                   new_class, "; use --other_machines to compare them anyway"));
}

RegressionOptions OptionsOfFlags() {
  RegressionOptions options;
  options.confidence = FLAGS_confidence;
  options.tolerance = FLAGS_tolerance;
  options.tolerance_apart = FLAGS_tolerance_apart;
  return options;
}

absl::StatusOr<int> Report(const Regression& regression, const RegressionOptions& options) {
  std::printf("%s", RegressionText(regression, options).c_str());
  if (!FLAGS_markdown.empty()) {
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(UserPath(FLAGS_markdown), RegressionMarkdown(regression, options)));
  }
  if (regression.failed()) return kBadResult;
  if (regression.compared()) return kPass;
  return absl::FailedPreconditionError(
      "no row could be compared: no strategy of any case was measured in both results; see the "
      "reasons above and in the suites' own output");
}

absl::StatusOr<int> Compare(const Results& old_results, const Results& new_results) {
  DPIPE_RETURN_IF_ERROR(CheckMachines(old_results, new_results));
  const RegressionOptions options = OptionsOfFlags();
  return Report(CompareResults(old_results, new_results, options), options);
}

// Runs both programs once and adds their turns to those of earlier rounds. Being started first may
// matter by a percent, so the programs alternate.
absl::Status RunRound(const std::array<SuiteProgram, 2>& programs, bool new_first,
                      const std::string& folder, const std::string& turns,
                      std::array<Results, 2>* all) {
  DPIPE_RETURN_IF_ERROR(RunInTurns({programs[new_first], programs[!new_first]}, turns));
  for (int i = 0; i < 2; ++i) {
    const std::string own_folder = absl::StrCat(folder, "/", programs[i].name);
    DPIPE_ASSIGN_OR_RETURN(Results results, ReadResults(own_folder));
    Results& sum = (*all)[i];
    if (!sum.cases().empty()) {
      DPIPE_RETURN_IF_ERROR(AppendTurns(results, &sum));
    } else {
      sum = std::move(results);
    }
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(own_folder + "/results.json", report::ResultsToJson(sum)));
  }
  return absl::OkStatus();
}

// Runs both programs, round after round, until all rounds together give a clear result.
absl::StatusOr<int> ComparePrograms() {
  const std::string folder = FLAGS_out.empty() ? OutputPath("out/regress") : UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  std::error_code error;
  std::filesystem::remove_all(folder + "/profiles", error);  // from an earlier run
  const std::array<SuiteProgram, 2> programs = {ProgramOf(0, folder), ProgramOf(1, folder)};
  // Differs from that of any other run.
  const int64_t chance = MonotonicNow();
  const std::string turns = absl::StrCat(getpid(), "-", chance);
  RegressionOptions options = OptionsOfFlags();
  options.looks = LooksOfRounds(FLAGS_rounds);
  std::array<Results, 2> all;
  Regression regression;
  for (int round = 1; round <= FLAGS_rounds; ++round) {
    const bool new_first = (chance / kNanosPerMicro + round) % 2 == 0;
    DPIPE_RETURN_IF_ERROR(RunRound(programs, new_first, folder, turns, &all));
    regression = CompareResults(all[0], all[1], options);
    const bool continues = NeedsAnotherRound(regression, round);
    std::printf("Round %d: %s\n", round,
                !continues       ? "settled"
                : round % 2 == 1 ? "swapping the start order"
                                 : "still unclear");
    std::fflush(stdout);
    if (!continues) break;
  }
  return Report(regression, options);
}

absl::StatusOr<int> Main() {
  const bool is_path = FLAGS_suite.find(".textproto") != std::string::npos;
  if (is_path) FLAGS_suite = UserPath(FLAGS_suite);
  if (FLAGS_confidence <= 0 || FLAGS_confidence >= 1) {
    return CommandLineError(
        absl::StrCat("--confidence=", FLAGS_confidence, " is not between 0 and 1"));
  }
  if (FLAGS_old_program.empty() != FLAGS_new_program.empty()) {
    return CommandLineError("give both --old_program and --new_program");
  }
  if (FLAGS_rounds < 2 || FLAGS_rounds % 2 == 1) {
    return CommandLineError(absl::StrCat(
        "--rounds=", FLAGS_rounds,
        " must be an even number, at least 2: the programs alternate in starting first"));
  }
  if (!FLAGS_old_program.empty() && FLAGS_store) {
    return CommandLineError("--store needs --new, and neither --old nor --old_program");
  }
  if (!FLAGS_old_program.empty()) return ComparePrograms();
  if (FLAGS_new.empty()) {
    return CommandLineError("nothing to compare: --new or --new_program is missing");
  }
  FLAGS_new = UserPath(FLAGS_new);
  if (!FLAGS_old.empty()) FLAGS_old = UserPath(FLAGS_old);
  DPIPE_ASSIGN_OR_RETURN(const Results new_results, ReadResults(FLAGS_new));
  const std::string baseline = BaselinePath(new_results);
  if (FLAGS_store) {
    DPIPE_RETURN_IF_ERROR(MakeParentFolder(baseline));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(baseline, report::ResultsToJson(new_results)));
    std::printf("Stored as %s\n", baseline.c_str());
    return kPass;
  }
  if (FLAGS_old.empty() && !std::filesystem::exists(baseline)) {
    std::printf(
        "There is no baseline of this machine class and suite, %s: nothing is compared.\n"
        "To make these results the baseline, add --store.\n",
        baseline.c_str());
    return kPass;
  }
  DPIPE_ASSIGN_OR_RETURN(const Results old_results,
                         ReadResults(FLAGS_old.empty() ? baseline : FLAGS_old));
  return Compare(old_results, new_results);
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  dpipe::Command command;
  command.name = "regress";
  command.usage =
      "Compares two results of a suite, row by row, and says whether anything got slower.\n"
      "  bazel run //bench:regress -- --old=out/suite/before --new=out/suite/quick\n"
      "  bazel run //bench:regress -- --new=out/suite/quick       with the stored baseline\n"
      "  bazel run //bench:regress -- --old_program=/tmp/before \\\n"
      "      --new_program=bazel-bin/bench/suite                  both in turns on this machine\n\n"
      "Exit codes: 0 nothing is slower, 1 refused (why is on standard error), 2 wrong command "
      "line,\n4 a regression.\n";
  command.groups = {{"Comparing results", {"old", "new", "baselines", "store", "other_machines"}},
                    {"Comparing programs",
                     {"old_program", "new_program", "suite", "old_flags", "new_flags",
                      "own_profiles", "rounds", "out"}},
                    {"Verdict", {"confidence", "tolerance", "tolerance_apart", "markdown"}}};
  return dpipe::RunCommandWithCode(argc, argv, command, dpipe::bench::Main);
}
