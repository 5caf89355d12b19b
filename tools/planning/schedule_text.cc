#include "tools/planning/schedule_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace dpipe::tools {
namespace {

constexpr PassCosts kUnitCosts = {1, 1, 1};
constexpr size_t kMaxSlots = 2000;

// False for what is not a pass of a schedule.
bool PassOf(Instruction::Kind kind, Pass* pass) {
  switch (kind) {
    case Instruction::FORWARD:
      *pass = Pass::kForward;
      return true;
    case Instruction::BACKWARD:
      *pass = Pass::kBackward;
      return true;
    case Instruction::INPUT_GRAD:
      *pass = Pass::kInputGrad;
      return true;
    case Instruction::WEIGHT_GRAD:
      *pass = Pass::kWeightGrad;
      return true;
    default:
      return false;
  }
}

// The least rank of every stage: that of the first group's first replica.
int FirstRank(const Stage& stage) {
  return *std::min_element(stage.ranks().begin(), stage.ranks().end());
}

std::vector<Slot> SlotsOf(const DeviceProgram& program) {
  std::vector<Slot> slots;
  std::set<std::tuple<Pass, int, int>> seen;
  for (const Instruction& instruction : program.instructions()) {
    Slot slot{Pass::kForward, instruction.micro_batch(), instruction.stage()};
    if (!PassOf(instruction.kind(), &slot.pass)) continue;
    if (seen.insert({slot.pass, slot.micro_batch, slot.stage}).second) slots.push_back(slot);
  }
  return slots;
}

}  // namespace

absl::StatusOr<Schedule> ScheduleOfPlan(const Plan& plan) {
  std::map<int, int> device_of_rank;
  for (const Stage& stage : plan.stages()) {
    if (stage.ranks_size() == 0) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", stage.id(), " has no ranks"));
    }
    device_of_rank[FirstRank(stage)] = 0;
  }
  int num_devices = 0;
  for (auto& [rank, device] : device_of_rank) device = num_devices++;
  std::vector<ScheduleChain> chains;
  std::map<int, int> backbones;
  for (const PipelineChain& from : plan.chains()) {
    ScheduleChain chain;
    chain.num_micro_batches = from.num_micro_batches();
    chain.backbone =
        backbones.emplace(from.component(), static_cast<int>(backbones.size())).first->second;
    for (int s = from.first_stage(); s < from.first_stage() + from.num_stages(); ++s) {
      if (s < 0 || s >= plan.stages_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("a chain names stage ", s, " of ", plan.stages_size()));
      }
      chain.devices.push_back(device_of_rank[FirstRank(plan.stages(s))]);
      chain.num_forward_only += plan.stages(s).forward_only() ? 1 : 0;
    }
    chains.push_back(std::move(chain));
  }
  std::vector<std::vector<Slot>> slots(num_devices);
  for (const DeviceProgram& program : plan.devices()) {
    const auto device = device_of_rank.find(program.rank());
    if (device != device_of_rank.end()) slots[device->second] = SlotsOf(program);
  }
  return Schedule::Create(plan.strategy(), std::move(chains), std::move(slots));
}

std::string ScheduleText(const Schedule& schedule) {
  return ScheduleText(schedule, absl::StrFormat("Unit costs: makespan %d, bubble ratio %.1f %%\n",
                                                schedule.Makespan(kUnitCosts),
                                                100 * schedule.BubbleRatio(kUnitCosts)));
}

std::string ScheduleText(const Schedule& schedule, const std::string& costs) {
  std::map<char, int> passes;
  size_t num_slots = 0;
  std::vector<int> stashed;
  for (int device = 0; device < schedule.num_devices(); ++device) {
    for (const Slot& slot : schedule.slots(device)) ++passes[PassLetter(slot.pass)];
    num_slots += schedule.slots(device).size();
    stashed.push_back(schedule.PeakStashedOnDevice(device));
  }
  std::vector<std::string> counts;
  for (const auto& [letter, count] : passes) {
    counts.push_back(absl::StrCat(count, " ", std::string(1, letter)));
  }
  std::string text = absl::StrCat("Schedule:   ", schedule.name(), ", ", schedule.num_devices(),
                                  " devices, ", schedule.num_stages(), " stages, ");
  for (size_t c = 0; c < schedule.chains().size(); ++c) {
    absl::StrAppend(&text, c > 0 ? " + " : "", schedule.chains()[c].num_micro_batches);
  }
  absl::StrAppend(&text, " micro-batches\nPasses:     ", absl::StrJoin(counts, ", "), "\n", costs,
                  "Stashed:    at most ", absl::StrJoin(stashed, ", "),
                  " (stage, micro-batch) pairs per device\n");
  if (num_slots <= kMaxSlots) absl::StrAppend(&text, "\n", schedule.ToString());
  if (text.back() != '\n') text += '\n';
  return text;
}

}  // namespace dpipe::tools
