// Runs a benchmark suite: models x strategies x devices x batches x backends, in turns, with every
// result checked.
//   bazel run //bench:suite -- --suite=quick
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/suite_runner/suite_cases.h"
#include "bench/suite_runner/suite_process.h"
#include "bench/suite_runner/suite_run.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/host/stop_request.h"
#include "core/base/text/shell_quote.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/page/results_page.h"
#include "core/report/results/origin.h"
#include "core/report/results/results_table.h"
#include "data/outputs_apart.h"
#include "gflags/gflags.h"

DEFINE_string(suite, "quick", "name of a suite in bench/suites, or path of a .textproto");
DEFINE_string(out, "", "folder for the results; empty: out/suite/ and the suite's name");
DEFINE_bool(fresh, false, "measure everything again instead of resuming an interrupted run");
DEFINE_bool(mix, false,
            "keep finished cases measured by other code or another machine; the report names them");
DEFINE_bool(list, false, "print the suite's cases and run nothing");
DEFINE_double(
    slow_down, 0,
    "fraction by which to slow down every executed step, to test the detection of slowdowns");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(profiles, "",
              "folder of profiles to plan from; missing ones are measured and written there");
DEFINE_string(
    only, "",
    "id of a single case to run; its files are left in the results' folder. The suite runs "
    "each case on a GPU in such a process of its own");
DEFINE_string(turns, "",
              "READ,WRITE,NAME: file descriptors and name that //bench:regress passes to run two "
              "suites in turns");
FLAG_RANGE(slow_down, 0, 1'000);

namespace dpipe::bench {
namespace {

constexpr char kStopping[] =
    "stopping with the cases finished so far; a second signal ends at once";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::Status TakeTurns(SuiteRunOptions* options) {
  if (FLAGS_turns.empty()) return absl::OkStatus();
  const size_t comma = FLAGS_turns.rfind(',');
  if (comma == std::string::npos) {
    return CommandLineError("--turns=" + FLAGS_turns + " is not READ,WRITE,NAME");
  }
  DPIPE_ASSIGN_OR_RETURN(const TurnPipes pipes, ParseTurnPipes(FLAGS_turns.substr(0, comma)));
  options->turns = FLAGS_turns.substr(comma + 1);
  options->cases.before_turn = [pipes] { return WaitForTurn(pipes); };
  return absl::OkStatus();
}

std::vector<report::StrategyTraces> PointersTo(const CaseTraces& file) {
  std::vector<report::StrategyTraces> traces;
  for (const StrategyTraceFile& one : file.traces()) {
    report::StrategyTraces& trace = traces.emplace_back();
    trace.strategy = one.strategy();
    if (one.measured().events_size() > 0) trace.measured = &one.measured();
    if (one.predicted().events_size() > 0) trace.predicted = &one.predicted();
  }
  return traces;
}

// Writes the reports on the cases so far.
absl::Status WriteReports(const std::string& folder, const Results& results) {
  DPIPE_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/tables.md", report::ResultsMarkdown(results)));
  std::vector<CaseTraces> files;  // which `traces` point into
  std::vector<std::vector<report::StrategyTraces>> traces;
  files.reserve(results.cases_size());
  for (const CaseResult& one : results.cases()) {
    DPIPE_ASSIGN_OR_RETURN(files.emplace_back(), ReadCaseTraces(folder, one.id()));
    traces.push_back(PointersTo(files.back()));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string page, report::ResultsPage(results, traces));
  return WriteFileAtomically(folder + "/report.html", page);
}

void PrintResults(const std::string& folder, const Results& results) {
  std::printf("\n%s", report::ResultsText(results).c_str());
  for (const std::string& mixed : report::MixedOrigins(results)) Say("Mixed runs: " + mixed);
  std::printf("Report:   %s/report.html\nTables:   %s/tables.md\nResults:  %s/results.json\n",
              folder.c_str(), folder.c_str(), folder.c_str());
}

absl::StatusOr<int> RunOnly(const Suite& suite, const std::vector<SuiteCase>& cases,
                            const SuiteRunOptions& options) {
  for (const SuiteCase& one : cases) {
    if (one.id != FLAGS_only) continue;
    DPIPE_RETURN_IF_ERROR(RunCaseAlone(suite, one, options));
    return 0;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--only=", FLAGS_only, ": suite ", suite.name(), " has no such case"));
}

// Returns the exit status: 0, or 2 if a result does not count or a case failed. Returns Cancelled
// if a signal, or the end of turns, has ended the suite. `given`: the command line's arguments.
absl::StatusOr<int> Main(const std::string& command_line, const std::vector<std::string>& given) {
  const bool is_path = FLAGS_suite.find(".textproto") != std::string::npos;
  DPIPE_ASSIGN_OR_RETURN(const Suite suite,
                         ReadSuite(is_path ? UserPath(FLAGS_suite) : FLAGS_suite, "bench/suites"));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<SuiteCase> cases, ExpandSuite(suite));
  if (FLAGS_list) {
    for (const SuiteCase& one : cases) Say(one.id);
    return 0;
  }
  SuiteRunOptions options;
  options.folder =
      FLAGS_out.empty() ? OutputPath("out/suite/" + suite.name()) : UserPath(FLAGS_out);
  options.command_line = command_line;
  options.fresh = FLAGS_fresh;
  options.mix = FLAGS_mix;
  if (!FLAGS_profiles.empty()) {
    options.cases.shared_profiles = UserPath(FLAGS_profiles);
    DPIPE_RETURN_IF_ERROR(MakeFolder(options.cases.shared_profiles));
  }
  options.cases.data_folder = FLAGS_data;
  DPIPE_RETURN_IF_ERROR(CheckNotInData(
      {"--out=", options.folder}, {"--data=", FLAGS_data.empty() ? "" : UserPath(FLAGS_data)}));
  options.cases.slow_down = FLAGS_slow_down;
  options.cases.say = Say;
  const StopRequest stop(kStopping);
  options.cases.stop_requested = [&stop]() -> std::string {
    return stop.signal() == nullptr ? "" : stop.signal();
  };
  absl::Status reports;
  options.after_case = [&](const Results& so_far) {
    reports = WriteReports(options.folder, so_far);
    if (!reports.ok()) Say(absl::StrCat("Reports: ", reports.message()));
  };
  DPIPE_RETURN_IF_ERROR(TakeTurns(&options));
  if (!FLAGS_only.empty()) return RunOnly(suite, cases, options);
  options.run_in_process = [&](const std::string& id) {
    return RunProcess(OwnCommand(given, "--only=" + id), options.cases.stop_requested);
  };
  DPIPE_ASSIGN_OR_RETURN(const Results results, RunSuite(suite, cases, options));
  DPIPE_RETURN_IF_ERROR(reports);
  PrintResults(options.folder, results);
  const std::vector<std::string> failures = report::Failures(results);
  for (const std::string& failure : failures) {
    std::fprintf(stderr, "suite: does not count: %s\n", failure.c_str());
  }
  return failures.empty() ? 0 : kBadResult;
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::string command_line = "bazel run //bench:suite --";
  for (const std::string& argument : given) {
    // Results show the command that the user entered.
    if (absl::StartsWith(argument, "--only=")) continue;
    absl::StrAppend(&command_line, " ", dpipe::ShellCommand({argument}));
  }
  dpipe::Command command;
  command.name = "suite";
  command.usage =
      "Runs a benchmark suite, or resumes an interrupted one.\n"
      "  bazel run //bench:suite -- --suite=quick\n\n"
      "Exit codes: 0 done, 1 refused (why is on standard error), 2 wrong command line, 3 stopped "
      "by\n"
      "//bench:regress, 4 a result does not count or a case failed, 130 stopped by a signal: the "
      "same\ncommand resumes.\n";
  command.groups = {{"What to run", {"suite", "list", "data", "profiles"}},
                    {"Results", {"out", "fresh", "mix"}},
                    {"For other programs", {"only", "turns", "slow_down"}}};
  return dpipe::RunCommandWithCode(argc, argv, command, [&]() -> absl::StatusOr<int> {
    const absl::StatusOr<int> code = dpipe::bench::Main(command_line, given);
    if (code.ok()) return code;
    if (!absl::IsCancelled(code.status())) return code;
    std::fprintf(stderr, "suite: %s\n", std::string(code.status().message()).c_str());
    return dpipe::SignalWasNoted() ? dpipe::bench::kInterruptedStatus
                                   : dpipe::bench::kCancelledStatus;
  });
}
