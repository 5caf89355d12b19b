#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/simulated/paper_report.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

using Json = nlohmann::ordered_json;

const char* RoleName(Role role) {
  switch (role) {
    case Role::kDataParallel:
      return "data_parallel";
    case Role::kSharded:
      return "sharded";
    case Role::kPipeline:
      return "pipeline";
    case Role::kFilled:
      return "filled_pipeline";
    case Role::kCached:
      return "offline_cache";
  }
  return "";
}

Json OutcomeJson(const Outcome& outcome) {
  Json json = {{"strategy", outcome.label}, {"spec", outcome.spec}};
  if (!outcome.planned()) {
    json["refusal"] = outcome.refusal;
    return json;
  }
  json["role"] = RoleName(outcome.role);
  json["images_per_second"] = outcome.images_per_second;
  json["step_ns"] = outcome.step_ns;
  json["lower_bound_ns"] = outcome.lower_bound_ns;
  json["bubble_ratio"] = outcome.bubble_ratio;
  json["unfilled_bubble_ratio"] = outcome.unfilled_bubble_ratio;
  json["peak_memory_bytes"] = outcome.peak_memory_bytes;
  json["schedule"] = outcome.schedule;
  json["stages"] = outcome.num_stages;
  json["micro_batches"] = outcome.num_micro_batches;
  json["micro_batch_size"] = outcome.micro_batch_size;
  json["devices_per_pipeline"] = outcome.devices_per_pipeline;
  json["planning_ns"] = outcome.planning_ns;
  return json;
}

Outcome OutcomeOf(const Json& json) {
  Outcome outcome;
  outcome.label = json.at("strategy");
  outcome.spec = json.at("spec");
  if (json.contains("refusal")) {
    outcome.refusal = json.at("refusal");
    return outcome;
  }
  for (const Role role :
       {Role::kDataParallel, Role::kSharded, Role::kPipeline, Role::kFilled, Role::kCached}) {
    if (json.at("role") == RoleName(role)) outcome.role = role;
  }
  outcome.images_per_second = json.at("images_per_second");
  outcome.step_ns = json.at("step_ns");
  outcome.lower_bound_ns = json.at("lower_bound_ns");
  outcome.bubble_ratio = json.at("bubble_ratio");
  outcome.unfilled_bubble_ratio = json.at("unfilled_bubble_ratio");
  outcome.peak_memory_bytes = json.at("peak_memory_bytes");
  outcome.schedule = json.at("schedule");
  outcome.num_stages = json.at("stages");
  outcome.num_micro_batches = json.at("micro_batches");
  outcome.micro_batch_size = json.at("micro_batch_size");
  outcome.devices_per_pipeline = json.at("devices_per_pipeline");
  outcome.planning_ns = json.at("planning_ns");
  return outcome;
}

GridResult CaseOf(const Json& json) {
  GridResult c;
  c.chapter = json.value("chapter", "");
  c.model = json.at("model");
  c.cluster = json.at("cluster");
  // Files of before there were chapters name it in the cluster: "a100_8x1".
  c.device = json.value("device", c.cluster.substr(0, c.cluster.find('_')));
  c.nccl = json.value("nccl", false);
  c.num_devices = json.at("devices");
  c.global_batch = json.at("global_batch");
  c.num_stages = json.at("asked_stages");
  c.num_micro_batches = json.at("asked_micro_batches");
  c.min_step_ns = json.value("least_step_ns", Nanos{0});
  for (const Json& outcome : json.at("strategies")) c.outcomes.push_back(OutcomeOf(outcome));
  for (const Json& outcome : json.at("ablations")) c.ablations.push_back(OutcomeOf(outcome));
  return c;
}

Json OutcomesJson(const std::vector<Outcome>& outcomes) {
  Json json = Json::array();
  for (const Outcome& outcome : outcomes) json.push_back(OutcomeJson(outcome));
  return json;
}

}  // namespace

std::string PaperJson(const std::vector<GridResult>& results, const ReportSource& source) {
  Json json = {{"format", "dpipe.paper_tables"},
               {"format_version", 1},
               {"method", "simulated plans; nothing measured on the devices named"},
               {"command_line", source.command_line},
               {"simulation_budget", source.simulation_budget},
               {"planned_on", report::DescribeMachine(source.machine)},
               {"published",
                {{"by", "the DiffusionPipe paper, of its own systems and machines"},
                 {"speedup_over_pipelines_at_most", kPublishedPipelineSpeedup},
                 {"speedup_over_data_parallel_at_most", kPublishedDataParallelSpeedup},
                 {"bubble_ratio_below", kPublishedBubbleRatio}}},
               {"profiles", source.provenance}};
  json["cases"] = Json::array();
  for (const GridResult& c : results) {
    json["cases"].push_back({{"chapter", c.chapter},
                             {"model", c.model},
                             {"device", c.device},
                             {"cluster", c.cluster},
                             {"nccl", c.nccl},
                             {"devices", c.num_devices},
                             {"global_batch", c.global_batch},
                             {"asked_stages", c.num_stages},
                             {"asked_micro_batches", c.num_micro_batches},
                             {"least_step_ns", c.min_step_ns},
                             {"strategies", OutcomesJson(c.outcomes)},
                             {"ablations", OutcomesJson(c.ablations)}});
  }
  // Messages may quote bytes of a file that are not UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::vector<GridResult>> ReadPaperJson(const std::string& text,
                                                      int64_t simulation_budget) {
  std::vector<GridResult> results;
  try {
    DPIPE_ASSIGN_OR_RETURN(const Json json, ParseJson<Json>(text, "results of paper_tables"));
    if (json.at("simulation_budget") != simulation_budget) return results;
    for (const Json& c : json.at("cases")) results.push_back(CaseOf(c));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not results of paper_tables: ", error.what()));
  }
  return results;
}

}  // namespace dpipe::bench
