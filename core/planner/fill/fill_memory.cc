#include "core/planner/fill/fill_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/range.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/lowering/lower.h"

namespace dpipe {
namespace {

Instruction OfItem(const FillItem& item) {
  Instruction instruction;
  instruction.set_kind(item.load ? Instruction::LOAD_BATCH : Instruction::FROZEN_FORWARD);
  instruction.set_stage(-1);
  instruction.set_component(item.component);
  instruction.set_micro_batch(-1);
  instruction.set_peer(-1);
  instruction.mutable_samples()->set_begin(item.samples.begin);
  instruction.mutable_samples()->set_end(item.samples.end);
  if (!item.load) {
    instruction.mutable_layers()->set_begin(item.layers.begin);
    instruction.mutable_layers()->set_end(item.layers.end);
  }
  instruction.set_step_offset(item.step_offset);
  return instruction;
}

Instruction OutputMessage(Instruction::Kind kind, int component, SampleRange samples) {
  Instruction message;
  message.set_kind(kind);
  message.set_payload(Instruction::FROZEN_OUTPUT);
  message.set_stage(-1);
  message.set_component(component);
  message.set_micro_batch(-1);
  message.set_peer(-1);
  message.set_step_offset(1);
  message.mutable_samples()->set_begin(samples.begin);
  message.mutable_samples()->set_end(samples.end);
  return message;
}

// Returns the parts of `range` that are in none of `others`.
std::vector<SampleRange> Without(SampleRange range, std::vector<SampleRange> others) {
  std::vector<SampleRange> parts;
  for (const SampleRange& other : Merge(std::move(others))) {
    const SampleRange common = range.Intersect(other);
    if (common.empty()) continue;
    if (range.begin < common.begin) parts.push_back({range.begin, common.begin});
    range.begin = common.end;
  }
  if (!range.empty()) parts.push_back(range);
  return parts;
}

}  // namespace

FillMemory::FillMemory(const Plan& unfilled, const CostModel& cost)
    : cost_(cost), plan_(unfilled), memory_(plan_, cost) {}

int64_t FillMemory::PeakBytes(int rank, const std::vector<FillItem>& items) {
  DeviceProgram with_items = WithItems(rank, items);
  plan_.mutable_devices(rank)->Swap(&with_items);
  const int64_t peak_bytes = memory_.OfRank(rank).peak_bytes;
  plan_.mutable_devices(rank)->Swap(&with_items);
  return peak_bytes;
}

DeviceProgram FillMemory::WithItems(int rank, const std::vector<FillItem>& items) const {
  const DeviceProgram& program = plan_.devices(rank);
  const std::vector<int> compute = ComputeInstructions(program);
  DeviceProgram result;
  result.set_rank(rank);
  size_t next = 0;
  size_t position = 0;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (position < compute.size() && compute[position] == i) {
      for (; next < items.size() && items[next].position == static_cast<int>(position); ++next) {
        *result.add_instructions() = OfItem(items[next]);
      }
      ++position;
    }
    if (i + 1 == program.instructions_size()) AppendMessages(rank, items, &result);
    *result.add_instructions() = program.instructions(i);
  }
  return result;
}

void FillMemory::AppendMessages(int rank, const std::vector<FillItem>& items,
                                DeviceProgram* program) const {
  std::vector<std::vector<SampleRange>> made(cost_.num_components()), read(cost_.num_components());
  for (const FillItem& item : items) {
    if (item.load || item.layers.end != cost_.num_layers(item.component)) continue;
    made[item.component].push_back(item.samples);
    *program->add_instructions() = OutputMessage(Instruction::SEND, item.component, item.samples);
  }
  for (const Instruction& instruction : plan_.devices(rank).instructions()) {
    if (instruction.kind() != Instruction::FORWARD) continue;
    const Stage& stage = plan_.stages(instruction.stage());
    const SampleRange samples = SamplesIn(instruction);
    for (int source : cost_.SourcesOf(stage.component(), LayersIn(stage))) {
      read[source].push_back(samples);
    }
  }
  for (int c = 0; c < cost_.num_components(); ++c) {
    for (const SampleRange& samples : Merge(std::move(read[c]))) {
      for (const SampleRange& part : Without(samples, made[c])) {
        *program->add_instructions() = OutputMessage(Instruction::RECV, c, part);
      }
    }
  }
}

}  // namespace dpipe
