#include "bench/suite_runner/suite_run.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/comparison/describe_run.h"
#include "core/base/files/file.h"
#include "core/base/time.h"
#include "core/report/results/origin.h"
#include "core/report/results/results.h"
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
    const StrategyResult& result = comparison.results.strategies(static_cast<int>(i));
    if (!result.skipped().empty()) continue;
    StrategyTraceFile* trace = traces.add_traces();
    trace->set_strategy(result.strategy());
    *trace->mutable_measured() = comparison.outcomes[i].measured;
    *trace->mutable_predicted() = comparison.outcomes[i].predicted;
  }
  return traces;
}

class SuiteRun {
 public:
  SuiteRun(const Suite& suite, const SuiteRunOptions& options) : options_(options) {
    results_.set_benchmark(suite.name());
    results_.set_description(suite.description());
    if (!options.turns.empty()) results_.set_turns(options.turns);
  }

  absl::StatusOr<Results> Run(const std::vector<SuiteCase>& cases) {
    DPIPE_RETURN_IF_ERROR(MakeFolder(options_.folder + "/cases"));
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::string place = absl::StrCat("[", i + 1, "/", cases.size(), "] ", cases[i].id);
      const std::string definition = Definition(cases[i], options_.cases);
      std::optional<CaseResult> kept = Finished(cases[i], definition, place);
      if (!kept.has_value()) {
        absl::StatusOr<CaseResult> found = Measure(cases[i], definition, place);
        if (absl::IsCancelled(found.status()) && !StopRequested().ok()) {
          return absl::CancelledError(absl::StrCat(StopRequested().message(), " after ", i, " of ",
                                                   cases.size(), " cases"));
        }
        DPIPE_RETURN_IF_ERROR(found.status());
        kept = *std::move(found);
      }
      *results_.add_cases() = *std::move(kept);
      DPIPE_RETURN_IF_ERROR(
          WriteFileAtomically(options_.folder + "/results.json", report::ResultsToJson(results_)));
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
  CaseResult IdentityOn(const std::string& backend) const {
    CaseResult identity;
    identity.set_backend(backend);
    Complete(&identity);
    return identity;
  }

  // Returns Cancelled if a stop was requested.
  absl::Status StopRequested() const {
    const auto& asks = options_.cases.stop_requested;
    const std::string stopped_by = asks ? asks() : "";
    if (stopped_by.empty()) return absl::OkStatus();
    return absl::CancelledError(absl::StrCat("stopped by ", stopped_by));
  }

  absl::StatusOr<CaseResult> Measure(const SuiteCase& one, const std::string& definition,
                                     const std::string& place) {
    DPIPE_RETURN_IF_ERROR(StopRequested());
    const bool apart = options_.run_in_process && FindBackend(one.backend)->may_end_program;
    return apart ? RunApart(one, definition, place) : RunCase(one, definition, place);
  }

  // Returns an earlier run's result of the case, if it may be kept.
  std::optional<CaseResult> Finished(const SuiteCase& one, const std::string& definition,
                                     const std::string& place) const {
    const std::string& id = one.id;
    const auto json = ReadFile(CasePath(options_.folder, id, ".json"));
    if (!json.ok() || options_.fresh) return std::nullopt;
    auto result = report::CaseFromJson(*json);
    if (!result.ok()) {
      Say(place, "measured again: ", result.status().message());
      return std::nullopt;
    }
    if (result->state() != CaseResult::MEASURED) return std::nullopt;
    if (result->definition() != definition || result->id() != id) {
      Say(place, "measured again: its result is from another definition");
      return std::nullopt;
    }
    const CaseResult identity = IdentityOn(one.backend);
    const std::string code = report::CodeDifference(*result, identity);
    const std::string machine = report::MachineDifference(*result, identity);
    if (!options_.mix && !(code.empty() && machine.empty())) {
      Say(place, "measured again: its result is from another ",
          machine.empty() ? "program (" + code : "machine (" + machine, ")");
      return std::nullopt;
    }
    Say(place, "already measured on ", result->created());
    return *std::move(result);
  }

  absl::StatusOr<CaseResult> RunCase(const SuiteCase& one, const std::string& definition,
                                     const std::string& place) {
    CaseResult result = EmptyResult(one, definition);
    const SuiteBackend& backend = *FindBackend(one.backend);
    CaseTraces traces;
    const Nanos start = MonotonicNow();
    const absl::Status possible = backend.check(one);
    if (!possible.ok()) {
      result.set_state(CaseResult::SKIPPED);
      result.set_reason(std::string(possible.message()));
      Say(place, "skipped: ", result.reason());
    } else {
      Say(place, "");
      auto comparison = backend.run(one, options_.cases);
      // A result that lacks turns would stay incomplete, so it is not stored.
      if (comparison.ok() && !comparison->results.interrupted().empty()) {
        return absl::CancelledError(absl::StrCat("stopped by ", comparison->results.interrupted()));
      }
      if (comparison.ok()) {
        traces = TracesOf(*comparison);
        result = std::move(comparison->results);
        result.set_id(one.id);
        result.set_state(CaseResult::MEASURED);
        result.set_definition(definition);
        Complete(&result);
      } else {
        if (absl::IsCancelled(comparison.status())) return comparison.status();
        result.set_state(CaseResult::FAILED);
        result.set_reason(std::string(comparison.status().message()));
        Say(place, "failed: ", result.reason());
      }
      Say(place, "took ", FormatDuration(MonotonicNow() - start));
    }
    DPIPE_RETURN_IF_ERROR(Write(result, traces));
    return result;
  }

  // Returns the result that the other process leaves or, if it fails, how the process ended.
  absl::StatusOr<CaseResult> RunApart(const SuiteCase& one, const std::string& definition,
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
      return report::CaseFromJson(*json);
    }
    CaseResult result = EmptyResult(one, definition);
    result.set_state(CaseResult::FAILED);
    result.set_reason(std::string(ended.message()));
    Say(place, "failed: ", result.reason());
    DPIPE_RETURN_IF_ERROR(Write(result, CaseTraces()));
    return result;
  }

  // Returns the fields that are known before the case is run.
  CaseResult EmptyResult(const SuiteCase& one, const std::string& definition) const {
    CaseResult result = IdentityOn(one.backend);
    result.set_id(one.id);
    result.set_definition(definition);
    result.set_model(one.model.name());
    result.set_num_devices(one.num_devices);
    result.set_global_batch(one.global_batch);
    return result;
  }

  absl::Status Write(const CaseResult& result, const CaseTraces& traces) const {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(CasePath(options_.folder, result.id(), ".traces.pb"),
                                              traces.SerializeAsString()));
    return WriteFileAtomically(CasePath(options_.folder, result.id(), ".json"),
                               report::CaseToJson(result));
  }

  void Complete(CaseResult* results) const {
    DescribeRun(results);
    results->set_command_line(options_.command_line);
  }

  template <typename... Parts>
  void Say(const std::string& place, const Parts&... parts) const {
    options_.cases.say(absl::StrCat(place, " ", parts...));
  }

  const SuiteRunOptions& options_;
  Results results_;
};

}  // namespace

absl::StatusOr<Results> RunSuite(const Suite& suite, const std::vector<SuiteCase>& cases,
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
