#include <algorithm>
#include <cmath>

#include "bench/paper_report.h"
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

Json OutcomesJson(const std::vector<Outcome>& outcomes) {
  Json json = Json::array();
  for (const Outcome& outcome : outcomes) json.push_back(OutcomeJson(outcome));
  return json;
}

}  // namespace

std::string PaperJson(const std::vector<CaseResult>& results, const ReportSource& source) {
  Json json = {{"format", "dpipe.paper_tables"},
               {"format_version", 1},
               {"method", "simulated plans; nothing measured on the devices named"},
               {"command_line", source.command_line},
               {"planned_on", report::DescribeMachine(source.machine)},
               {"published",
                {{"by", "the DiffusionPipe paper, of its own systems and machines"},
                 {"speedup_over_pipelines_at_most", kPublishedPipelineSpeedup},
                 {"speedup_over_data_parallel_at_most", kPublishedDataParallelSpeedup},
                 {"bubble_ratio_below", kPublishedBubbleRatio}}},
               {"profiles", source.provenance}};
  json["cases"] = Json::array();
  for (const CaseResult& c : results) {
    json["cases"].push_back({{"model", c.model},
                             {"cluster", c.cluster},
                             {"devices", c.num_devices},
                             {"global_batch", c.global_batch},
                             {"strategies", OutcomesJson(c.outcomes)},
                             {"ablations", OutcomesJson(c.ablations)}});
  }
  // Messages may quote a file's bytes, which need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dpipe::bench
