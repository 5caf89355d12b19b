#include "core/planner/search/plan_tables.h"

#include <utility>

#include "core/base/status.h"
#include "core/planner/pipeline/pipeline_schedule.h"

namespace dpipe {
namespace {

constexpr int64_t kMaxSlots = 2'000'000;  // of all structures: some 30 MB

}  // namespace

PlanTables::PlanTables(const CostModel& cost) : memory_bound_(cost) {
  for (int backbone : cost.backbones()) {
    backbones_.push_back(std::make_shared<const BackboneTables>(cost, backbone));
  }
}

absl::StatusOr<std::shared_ptr<const Schedule>> PlanTables::StructureOf(const PipelineShape& shape,
                                                                        bool self_conditioning) {
  const StructureKey key = {shape.schedule,          shape.num_stages, shape.num_micro_batches,
                            shape.stages_per_device, shape.peak_limit, self_conditioning};
  if (const auto known = structures_.find(key); known != structures_.end()) return known->second;
  PipelineScheduleOptions options;
  options.num_backbones = static_cast<int>(backbones_.size());
  options.self_conditioning = self_conditioning;
  DPIPE_ASSIGN_OR_RETURN(Schedule structure, MakePipelineSchedule(shape, options));
  int64_t slots = 0;
  for (int d = 0; d < structure.num_devices(); ++d) {
    slots += static_cast<int64_t>(structure.slots(d).size());
  }
  if (num_slots_ + slots > kMaxSlots) {
    structures_.clear();
    num_slots_ = 0;
  }
  num_slots_ += slots;
  return structures_[key] = std::make_shared<const Schedule>(std::move(structure));
}

}  // namespace dpipe
