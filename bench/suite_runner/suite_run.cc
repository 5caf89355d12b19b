#include "bench/suite_runner/suite_run.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/comparison/code_identity.h"
#include "core/base/files/file.h"
#include "core/base/time.h"
#include "google/protobuf/text_format.h"

namespace dpipe::bench {
namespace {

std::string CasePath(const std::string& folder, const std::string& id, const char* ending) {
  return absl::StrCat(folder, "/cases/", id, ending);
}

// Returns everything that a result depends on except code and machine.
std::string Definition(const SuiteCase& one, const CaseOptions& options) {
  SuiteGroup group = one.settings;
  group.clear_backends();
  group.clear_models();
  group.clear_devices();
  group.clear_clusters();
  group.clear_global_batches();
  group.add_backends(one.backend);
  *group.add_models() = one.model;
  if (one.num_devices > 0) group.add_devices(one.num_devices);
  if (!one.cluster.empty()) group.add_clusters(one.cluster);
  group.add_global_batches(one.global_batch);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(group, &text);
  if (!options.data_folder.empty()) absl::StrAppend(&text, "# data: ", options.data_folder);
  if (options.slow_down > 0) absl::StrAppend(&text, "# slowed down by ", options.slow_down);
  return text;
}

CaseTraces TracesOf(const Comparison& comparison) {
  CaseTraces traces;
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    if (!comparison.results.results[i].skipped.empty()) continue;
    StrategyTraceFile* trace = traces.add_traces();
    trace->set_strategy(comparison.results.results[i].strategy);
    *trace->mutable_measured() = comparison.outcomes[i].measured;
    *trace->mutable_predicted() = comparison.outcomes[i].predicted;
  }
  return traces;
}

class SuiteRun {
 public:
  SuiteRun(const Suite& suite, const SuiteRunOptions& options) : options_(options) {
    results_.suite = suite.name();
    results_.description = suite.description();
    results_.turns = options.turns;
  }

  absl::StatusOr<SuiteResults> Run(const std::vector<SuiteCase>& cases) {
    DPIPE_RETURN_IF_ERROR(MakeFolder(options_.folder + "/cases"));
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::string place = absl::StrCat("[", i + 1, "/", cases.size(), "] ", cases[i].id);
      const std::string definition = Definition(cases[i], options_.cases);
      std::optional<SuiteCaseResult> kept = Finished(cases[i], definition, place);
      if (!kept.has_value()) {
        absl::StatusOr<SuiteCaseResult> found = Measure(cases[i], definition, place);
        if (absl::IsCancelled(found.status()) && !StopRequested().ok()) {
          return absl::CancelledError(absl::StrCat(StopRequested().message(), " after ", i, " of ",
                                                   cases.size(), " cases"));
        }
        DPIPE_RETURN_IF_ERROR(found.status());
        kept = *std::move(found);
      }
      results_.cases.push_back(*std::move(kept));
      DPIPE_RETURN_IF_ERROR(
          WriteFileAtomically(options_.folder + "/results.json", SuiteResultsToJson(results_)));
      if (options_.after_case) options_.after_case(results_);
    }
    return std::move(results_);
  }

  absl::Status RunAlone(const SuiteCase& one) {
    DPIPE_RETURN_IF_ERROR(MakeFolder(options_.folder + "/cases"));
    return RunCase(one, Definition(one, options_.cases), one.id).status();
  }

 private:
  // Returns empty results that identify this run on the case's backend.
  report::BenchResults IdentityOn(const std::string& backend) const {
    report::BenchResults identity;
    identity.backend = backend;
    DescribeRun(&identity);
    identity.command_line = options_.command_line;
    return identity;
  }

  // Returns Cancelled if a stop was requested.
  absl::Status StopRequested() const {
    const auto& asks = options_.cases.stop_requested;
    const std::string stopped_by = asks ? asks() : "";
    if (stopped_by.empty()) return absl::OkStatus();
    return absl::CancelledError(absl::StrCat("stopped by ", stopped_by));
  }

  absl::StatusOr<SuiteCaseResult> Measure(const SuiteCase& one, const std::string& definition,
                                          const std::string& place) {
    DPIPE_RETURN_IF_ERROR(StopRequested());
    const bool apart = options_.run_in_process && FindBackend(one.backend)->may_end_program;
    return apart ? RunApart(one, definition, place) : RunCase(one, definition, place);
  }

  // Returns an earlier run's result of the case, if it may be kept.
  std::optional<SuiteCaseResult> Finished(const SuiteCase& one, const std::string& definition,
                                          const std::string& place) const {
    const std::string& id = one.id;
    const auto json = ReadFile(CasePath(options_.folder, id, ".json"));
    if (!json.ok() || options_.fresh) return std::nullopt;
    auto result = CaseResultFromJson(*json);
    if (!result.ok()) {
      Say(place, "measured again: ", result.status().message());
      return std::nullopt;
    }
    if (result->state != CaseState::kMeasured) return std::nullopt;
    if (result->definition != definition || result->id != id) {
      Say(place, "measured again: its result is from another definition");
      return std::nullopt;
    }
    const report::BenchResults identity = IdentityOn(one.backend);
    const std::string code = CodeDifference(result->results, identity);
    const std::string machine = MachineDifference(result->results, identity);
    if (!options_.mix && !(code.empty() && machine.empty())) {
      Say(place, "measured again: its result is from another ",
          machine.empty() ? "program (" + code : "machine (" + machine, ")");
      return std::nullopt;
    }
    Say(place, "already measured on ", result->results.created);
    return *std::move(result);
  }

  absl::StatusOr<SuiteCaseResult> RunCase(const SuiteCase& one, const std::string& definition,
                                          const std::string& place) {
    SuiteCaseResult result = EmptyResult(one, definition);
    const SuiteBackend& backend = *FindBackend(one.backend);
    CaseTraces traces;
    const Nanos start = MonotonicNow();
    const absl::Status possible = backend.check(one);
    if (!possible.ok()) {
      result.state = CaseState::kSkipped;
      result.reason = std::string(possible.message());
      Say(place, "skipped: ", result.reason);
    } else {
      Say(place, "");
      auto comparison = backend.run(one, options_.cases);
      // A result that lacks turns would stay incomplete, so it is not stored.
      if (comparison.ok() && !comparison->results.interrupted.empty()) {
        return absl::CancelledError(absl::StrCat("stopped by ", comparison->results.interrupted));
      }
      if (comparison.ok()) {
        Complete(&comparison->results);
        traces = TracesOf(*comparison);
        result.results = std::move(comparison->results);
      } else {
        if (absl::IsCancelled(comparison.status())) return comparison.status();
        result.state = CaseState::kFailed;
        result.reason = std::string(comparison.status().message());
        Say(place, "failed: ", result.reason);
      }
      Say(place, "took ", FormatDuration(MonotonicNow() - start));
    }
    DPIPE_RETURN_IF_ERROR(Write(result, traces));
    return result;
  }

  // Returns the result that the other process leaves or, if it fails, how the process ended.
  absl::StatusOr<SuiteCaseResult> RunApart(const SuiteCase& one, const std::string& definition,
                                           const std::string& place) {
    Say(place, "in a process of its own");
    const std::string path = CasePath(options_.folder, one.id, ".json");
    std::error_code error;
    std::filesystem::remove(path, error);  // left over by an earlier run
    absl::Status ended = options_.run_in_process(one.id);
    if (absl::IsCancelled(ended)) return ended;
    if (ended.ok()) {
      absl::StatusOr<std::string> json = ReadFile(path);
      if (!json.ok()) return json.status();
      return CaseResultFromJson(*json);
    }
    SuiteCaseResult result = EmptyResult(one, definition);
    result.state = CaseState::kFailed;
    result.reason = std::string(ended.message());
    Say(place, "failed: ", result.reason);
    DPIPE_RETURN_IF_ERROR(Write(result, CaseTraces()));
    return result;
  }

  // Returns the fields that are known before the case is run.
  SuiteCaseResult EmptyResult(const SuiteCase& one, const std::string& definition) const {
    SuiteCaseResult result;
    result.id = one.id;
    result.definition = definition;
    result.results = IdentityOn(one.backend);
    result.results.model = one.model.name();
    result.results.num_devices = one.num_devices;
    result.results.global_batch = one.global_batch;
    return result;
  }

  absl::Status Write(const SuiteCaseResult& result, const CaseTraces& traces) const {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(CasePath(options_.folder, result.id, ".traces.pb"),
                                              traces.SerializeAsString()));
    return WriteFileAtomically(CasePath(options_.folder, result.id, ".json"),
                               CaseResultToJson(result));
  }

  void Complete(report::BenchResults* results) const {
    DescribeRun(results);
    results->command_line = options_.command_line;
  }

  template <typename... Parts>
  void Say(const std::string& place, const Parts&... parts) const {
    options_.cases.say(absl::StrCat(place, " ", parts...));
  }

  const SuiteRunOptions& options_;
  SuiteResults results_;
};

}  // namespace

absl::StatusOr<SuiteResults> RunSuite(const Suite& suite, const std::vector<SuiteCase>& cases,
                                      const SuiteRunOptions& options) {
  return SuiteRun(suite, options).Run(cases);
}

absl::Status RunCaseAlone(const Suite& suite, const SuiteCase& one,
                          const SuiteRunOptions& options) {
  return SuiteRun(suite, options).RunAlone(one);
}

absl::StatusOr<CaseTraces> ReadCaseTraces(const std::string& folder, const std::string& id) {
  CaseTraces traces;
  const std::string path = CasePath(folder, id, ".traces.pb");
  if (!std::filesystem::exists(path)) return traces;
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, int64_t{2} << 30));
  if (!traces.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(path, " is not a CaseTraces message"));
  }
  return traces;
}

}  // namespace dpipe::bench
