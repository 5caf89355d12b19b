#include "bench/suite_runner/suite_results.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/report/results/results.h"

namespace dpipe::bench {
namespace {

std::string StateText(const CaseResult& one) {
  return absl::AsciiStrToLower(CaseResult::State_Name(one.state()));
}

absl::Status AppendTurnsOf(const std::string& case_id, const StrategyResult* more,
                           StrategyResult* result) {
  if (more == nullptr || more->skipped().empty() != result->skipped().empty()) {
    const std::string then = more == nullptr ? "missing" : more->skipped();
    return absl::FailedPreconditionError(absl::StrCat("suite results: ", case_id, ", ",
                                                      result->strategy(), ": skipped '",
                                                      result->skipped(), "', then '", then, "'"));
  }
  result->mutable_images_per_second()->MergeFrom(more->images_per_second());
  result->mutable_step_ms()->MergeFrom(more->step_ms());
  if (result->invalid().empty()) result->set_invalid(more->invalid());
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendTurns(const Results& more, Results* results) {
  if (more.cases_size() != results->cases_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("suite results: ", results->cases_size(), " cases, then ", more.cases_size()));
  }
  for (CaseResult& one : *results->mutable_cases()) {
    const CaseResult* other = report::FindCase(more, one.id());
    if (other == nullptr || other->state() != one.state()) {
      return absl::FailedPreconditionError(
          absl::StrCat("suite results: ", one.id(), " was ", StateText(one), ", then ",
                       other == nullptr ? "missing" : StateText(*other) + ": " + other->reason()));
    }
    for (StrategyResult& result : *one.mutable_strategies()) {
      DPIPE_RETURN_IF_ERROR(
          AppendTurnsOf(one.id(), report::FindStrategyResult(*other, result.strategy()), &result));
    }
  }
  results->set_rounds(results->rounds() + more.rounds());
  return absl::OkStatus();
}

}  // namespace dpipe::bench
