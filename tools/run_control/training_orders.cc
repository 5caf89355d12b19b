#include "tools/run_control/training_orders.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dpipe::tools {
namespace {

// Returns "--lr=0.1 here, but 0.2" for the first field that differs; empty if none does.
std::string FirstDifference(const RunIdentity& here, const RunIdentity& there) {
  std::set<std::string> fields;
  for (const auto& [field, value] : here.config()) fields.insert(field);
  for (const auto& [field, value] : there.config()) fields.insert(field);
  const auto value = [](const RunIdentity& identity, const std::string& field) -> std::string {
    const auto found = identity.config().find(field);
    return found == identity.config().end() ? "(none)" : found->second;
  };
  for (const std::string& field : fields) {
    if (absl::StartsWith(field, "job.") || value(here, field) == value(there, field)) continue;
    return absl::StrCat("--", field, "=", value(here, field), " here, but ", value(there, field));
  }
  if (here.dataset_size() != there.dataset_size()) {
    return absl::StrCat("a data set of ", here.dataset_size(), " samples here, but ",
                        there.dataset_size());
  }
  if (here.data_fingerprint() == there.data_fingerprint()) return "";
  return absl::StrCat(
      "a data set with the fingerprint ", here.data_fingerprint(),
      " here, but with other names, captions or sizes of files, and the fingerprint ",
      there.data_fingerprint(), ",");
}

absl::Status NotUnderstood(const char* what) {
  return absl::InternalError(absl::StrCat(what, " of the first process cannot be parsed"));
}

}  // namespace

absl::Status CheckSameRun(ProcessGroup* processes, const std::map<std::string, std::string>& config,
                          int64_t dataset_size, const std::string& data_fingerprint) {
  RunIdentity own, first;
  own.mutable_config()->insert(config.begin(), config.end());
  own.set_dataset_size(dataset_size);
  own.set_data_fingerprint(data_fingerprint);
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         processes->FromLeader("the run's configuration", own.SerializeAsString()));
  if (!first.ParseFromString(text)) return NotUnderstood("the flags");
  const std::string difference = FirstDifference(own, first);
  if (difference.empty()) return absl::OkStatus();
  const StoreClient& store = processes->store();
  return absl::FailedPreconditionError(absl::StrCat(store.NameOf(processes->process()),
                                                    " was started for another run: ", difference,
                                                    " at ", store.NameOf(0)));
}

absl::StatusOr<int64_t> AgreeOnFirstStep(ProcessGroup* processes, int64_t first_step) {
  DPIPE_ASSIGN_OR_RETURN(
      const std::string text,
      processes->FromLeader("the step at which the data's order begins", absl::StrCat(first_step)));
  if (!absl::SimpleAtoi(text, &first_step)) return NotUnderstood("the data's order");
  return first_step;
}

absl::StatusOr<bool> AgreeOnPlanning(ProcessGroup* processes, bool plan) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         processes->FromLeader("whether to plan", plan ? "yes" : "no"));
  return text == "yes";
}

absl::StatusOr<TrainingOrders> AgreeOnOrders(ProcessGroup* processes,
                                             const TrainingOrders& orders) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         processes->FromLeader("the plan", orders.SerializeAsString()));
  TrainingOrders agreed;
  if (!agreed.ParseFromString(text)) return NotUnderstood("the orders");
  return agreed;
}

}  // namespace dpipe::tools
