#include "core/schedule/testing/plan_mutations.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

using google::protobuf::FieldDescriptor;

int Below(RandomStream& stream, int bound) {
  return static_cast<int>(stream.NextBelow(static_cast<uint32_t>(bound)));
}

void Move(DeviceProgram* program, int from, int to) {
  auto* list = program->mutable_instructions();
  for (; from < to; ++from) list->SwapElements(from, from + 1);
  for (; from > to; --from) list->SwapElements(from, from - 1);
}

// Adds to, or replaces, one integer of the message or of a Range in it. Returns false if the field
// is not an integer.
bool ChangeInteger(RandomStream& stream, google::protobuf::Message* message,
                   const FieldDescriptor* field, std::string* what) {
  const auto* reflection = message->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    google::protobuf::Message* range = reflection->MutableMessage(message, field);
    const FieldDescriptor* inner =
        range->GetDescriptor()->field(Below(stream, range->GetDescriptor()->field_count()));
    absl::StrAppend(what, field->name(), ".");
    return ChangeInteger(stream, range, inner, what);
  }
  const int choice = Below(stream, 4);
  const int delta = choice == 0   ? 1
                    : choice == 1 ? -1
                    : choice == 2 ? 2
                                  : Below(stream, 2000) - 1000;
  absl::StrAppend(what, field->name(), " by ", delta);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection->SetInt32(message, field, reflection->GetInt32(*message, field) + delta);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    reflection->SetInt64(message, field, reflection->GetInt64(*message, field) + delta);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const int count = field->enum_type()->value_count();
    const int value = reflection->GetEnumValue(*message, field);
    reflection->SetEnumValue(message, field, (value + 1 + Below(stream, count - 1)) % count);
  } else {
    return false;
  }
  return true;
}

std::string ChangeField(RandomStream& stream, Instruction* instruction) {
  const auto* descriptor = instruction->GetDescriptor();
  for (;;) {
    const FieldDescriptor* field = descriptor->field(Below(stream, descriptor->field_count()));
    if (field->name().find("predicted") == 0) continue;
    std::string what = "change ";
    const std::string before = instruction->SerializeAsString();
    if (ChangeInteger(stream, instruction, field, &what) &&
        instruction->SerializeAsString() != before) {
      return what;
    }
  }
}

std::string ChangeStage(RandomStream& stream, int sign, Stage* stage) {
  switch (Below(stream, 7)) {
    case 0:
      stage->mutable_layers()->set_end(stage->layers().end() + sign);
      return "change a stage's layers";
    case 1:
      stage->set_ranks(Below(stream, stage->ranks_size()), Below(stream, 2) == 0 ? -1 : 9999);
      return "change a stage's ranks";
    case 2:
      stage->set_component(stage->component() + sign);
      return "change a stage's component";
    case 3:
      stage->set_chain(stage->chain() + sign);
      return "change a stage's chain";
    case 4:
      stage->set_forward_only(!stage->forward_only());
      return "change whether a stage is forward-only";
    case 5:
      if (stage->recompute_cuts_size() > 0) {
        stage->mutable_recompute_cuts()->RemoveLast();
        return "join a stage's last blocks";
      }
      stage->set_recompute(!stage->recompute());
      return "change whether a stage recomputes";
    default:
      stage->set_id(stage->id() + sign);
      return "change a stage's id";
  }
}

std::string ChangeChain(RandomStream& stream, PipelineChain* chain) {
  std::string what = "change a chain's ";
  const auto* descriptor = chain->GetDescriptor();
  const std::string before = chain->SerializeAsString();
  while (chain->SerializeAsString() == before) {
    what = "change a chain's ";
    ChangeInteger(stream, chain, descriptor->field(Below(stream, descriptor->field_count())),
                  &what);
  }
  return what;
}

std::string ChangeHeader(RandomStream& stream, Plan* plan) {
  const int sign = Below(stream, 2) == 0 ? 1 : -1;
  switch (Below(stream, 10)) {
    case 0:
      plan->set_global_batch(plan->global_batch() + sign);
      return "change global_batch";
    case 1:
      plan->set_num_micro_batches(plan->num_micro_batches() + sign);
      return "change num_micro_batches";
    case 2:
      plan->set_micro_batch_size(plan->micro_batch_size() + sign);
      return "change micro_batch_size";
    case 3:
      plan->mutable_profile_fingerprint()->append("0");
      return "change profile_fingerprint";
    case 4:
    case 5:
      return ChangeStage(stream, sign, plan->mutable_stages(Below(stream, plan->stages_size())));
    case 6:
      plan->mutable_devices()->RemoveLast();
      return "drop a device";
    case 7:
    case 8:
      return ChangeChain(stream, plan->mutable_chains(Below(stream, plan->chains_size())));
    default:
      plan->mutable_components(Below(stream, plan->components_size()))->set_num_layers(99);
      return "change a component's layers";
  }
}

}  // namespace

Mutation Mutate(RandomStream& stream, Plan* plan) {
  for (;;) {
    const int rank = Below(stream, plan->devices_size());
    DeviceProgram* program = plan->mutable_devices(rank);
    const int count = program->instructions_size();
    const int at = Below(stream, count);
    const std::string where =
        absl::StrCat(" at rank ", rank, ", instruction ", at, " (",
                     Instruction::Kind_Name(program->instructions(at).kind()), ")");
    switch (Below(stream, 7)) {
      case 0:
        program->mutable_instructions()->DeleteSubrange(at, 1);
        return {"drop" + where, false};
      case 1: {
        const Instruction copy = program->instructions(at);
        *program->add_instructions() = copy;
        Move(program, count, Below(stream, count + 1));
        return {"duplicate" + where, false};
      }
      case 2:
      case 3: {
        const int to = Below(stream, count);
        const std::string before = program->SerializeAsString();
        Move(program, at, to);
        if (program->SerializeAsString() == before) continue;
        return {absl::StrCat("move", where, " to ", to), true};
      }
      case 4: {
        const int other = Below(stream, count);
        const std::string before = program->SerializeAsString();
        program->mutable_instructions()->SwapElements(at, other);
        if (program->SerializeAsString() == before) continue;
        return {absl::StrCat("swap", where, " with ", other), true};
      }
      case 5:
        if (Below(stream, 4) > 0) continue;
        return {ChangeHeader(stream, plan), false};
      default:
        return {ChangeField(stream, program->mutable_instructions(at)) + where, false};
    }
  }
}

}  // namespace dpipe
