#include "core/schedule/plan_shape.h"

#include "absl/strings/str_cat.h"
#include "core/schedule/plan_io.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

template <typename T, typename U>
absl::Status Same(const std::string& what, const T& planned, const U& expected) {
  if (planned == expected) return absl::OkStatus();
  return Bad(absl::StrCat(what, " is ", planned, " and must be ", expected));
}

absl::Status CheckHeader(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(
      Same("profile_fingerprint", plan.profile_fingerprint(), Fingerprint(cost.profile())));
  DPIPE_RETURN_IF_ERROR(
      Same("cluster_fingerprint", plan.cluster_fingerprint(), Fingerprint(cost.cluster())));
  DPIPE_RETURN_IF_ERROR(Same("num_devices", plan.num_devices(), cost.num_devices()));
  DPIPE_RETURN_IF_ERROR(
      Same("the number of device programs", plan.devices_size(), cost.num_devices()));
  for (int r = 0; r < plan.devices_size(); ++r) {
    DPIPE_RETURN_IF_ERROR(Same(absl::StrCat("devices[", r, "].rank"), plan.devices(r).rank(), r));
  }
  const int in_pipeline = plan.devices_per_pipeline();
  if (in_pipeline < 1 || plan.num_devices() % in_pipeline != 0) {
    return Bad(absl::StrCat("devices_per_pipeline is ", in_pipeline, " and must divide ",
                            plan.num_devices()));
  }
  if (plan.num_micro_batches() < 1 || plan.micro_batch_size() < 1) {
    return Bad(absl::StrCat(plan.num_micro_batches(), " micro-batches of ", plan.micro_batch_size(),
                            " samples; at least one of each"));
  }
  const int64_t batch = static_cast<int64_t>(plan.num_devices() / in_pipeline) *
                        plan.num_micro_batches() * plan.micro_batch_size();
  DPIPE_RETURN_IF_ERROR(Same("global_batch", int64_t{plan.global_batch()}, batch));
  if (plan.frozen_quantum() < 1) {
    return Bad(absl::StrCat("frozen_quantum is ", plan.frozen_quantum(), "; it is at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckComponents(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(
      Same("the number of components", plan.components_size(), cost.num_components()));
  for (int c = 0; c < plan.components_size(); ++c) {
    const PlanComponent& planned = plan.components(c);
    const ComponentProfile& profile = cost.profile().components(c);
    const std::string where = absl::StrCat("component ", c, ": ");
    DPIPE_RETURN_IF_ERROR(Same(where + "name", planned.name(), profile.name()));
    DPIPE_RETURN_IF_ERROR(
        Same(where + "is_backbone", int{planned.is_backbone()}, int{profile.is_backbone()}));
    DPIPE_RETURN_IF_ERROR(Same(where + "num_layers", planned.num_layers(), profile.layers_size()));
    int outputs = 0;
    for (const ValueProfile& value : profile.values()) {
      if (!value.is_output()) continue;
      const std::string planned_name =
          outputs < planned.outputs_size() ? planned.outputs(outputs) : "";
      DPIPE_RETURN_IF_ERROR(
          Same(absl::StrCat(where, "outputs[", outputs, "]"), planned_name, value.name()));
      ++outputs;
    }
    DPIPE_RETURN_IF_ERROR(Same(where + "the number of outputs", planned.outputs_size(), outputs));
  }
  return absl::OkStatus();
}

absl::Status Empty(const std::string& where, const char* field, int64_t value, int64_t empty) {
  if (value == empty) return absl::OkStatus();
  return Bad(
      absl::StrCat(where, field, " is ", value, " and means nothing here; it must be ", empty));
}

absl::Status Within(const std::string& where, const char* field, int64_t value, int64_t count) {
  if (0 <= value && value < count) return absl::OkStatus();
  return Bad(absl::StrCat(where, field, " is ", value, " and must be in [0, ", count, ")"));
}

absl::Status RangeWithin(const std::string& where, const char* field, const Range& range,
                         int64_t count) {
  if (0 <= range.begin() && range.begin() < range.end() && range.end() <= count) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(where, field, " [", range.begin(), ", ", range.end(),
                          ") must be not empty and within [0, ", count, ")"));
}

// Which fields an instruction uses.
struct Uses {
  bool stage = false, component = false, micro_batch = false, samples = false, layers = false;
  bool peer = false, peer_stage = false, bytes = false, offset = false;
};

Uses UsesOf(const Instruction& instruction) {
  Uses uses;
  switch (instruction.kind()) {
    case Instruction::FORWARD:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      uses.stage = uses.micro_batch = uses.samples = uses.layers = true;
      break;
    case Instruction::LOAD_BATCH:
      uses.component = uses.samples = uses.offset = true;
      break;
    case Instruction::FROZEN_FORWARD:
      uses.component = uses.samples = uses.layers = uses.offset = true;
      break;
    case Instruction::REDUCE_GRADS:
      uses.stage = uses.layers = uses.bytes = true;
      break;
    case Instruction::FLUSH:
      uses.offset = true;
      break;
    case Instruction::SEND:
    case Instruction::RECV:
      uses.samples = uses.peer = uses.bytes = true;
      if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
        uses.component = uses.offset = true;
      } else {
        uses.stage = uses.peer_stage = uses.micro_batch = true;
      }
      break;
    default:
      break;
  }
  return uses;
}

absl::Status CheckKind(const std::string& where, const Instruction& instruction) {
  const bool message =
      instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
  const bool has_payload = instruction.payload() == Instruction::ACTIVATION ||
                           instruction.payload() == Instruction::GRADIENT ||
                           instruction.payload() == Instruction::FROZEN_OUTPUT;
  if (message && !has_payload) return Bad(where + "a message with no payload");
  if (!message) DPIPE_RETURN_IF_ERROR(Empty(where, "payload", instruction.payload(), 0));
  switch (instruction.kind()) {
    case Instruction::KIND_UNSPECIFIED:
      return Bad(where + "no kind");
    case Instruction::GATHER_PARAMS:
    case Instruction::RELEASE_PARAMS:
      return Bad(where + "parameters are never sharded, so there is nothing to gather or release");
    default:
      return Instruction::Kind_IsValid(instruction.kind())
                 ? absl::OkStatus()
                 : Bad(absl::StrCat(where, "kind ", static_cast<int>(instruction.kind())));
  }
}

}  // namespace

std::string InstructionName(const Plan& plan, int rank, int index) {
  return absl::StrCat("rank ", rank, ", instruction ", index, " (",
                      Instruction::Kind_Name(plan.devices(rank).instructions(index).kind()), "): ");
}

absl::Status CheckFields(const Plan& plan, const PlanShape& shape, int rank, int index) {
  const Instruction& instruction = plan.devices(rank).instructions(index);
  const std::string where = InstructionName(plan, rank, index);
  DPIPE_RETURN_IF_ERROR(CheckKind(where, instruction));
  const Uses uses = UsesOf(instruction);
  DPIPE_RETURN_IF_ERROR(uses.stage
                            ? Same(where + "stage", instruction.stage(), shape.place(rank).stage)
                            : Empty(where, "stage", instruction.stage(), -1));
  DPIPE_RETURN_IF_ERROR(
      uses.component ? Within(where, "component", instruction.component(), plan.components_size())
                     : Empty(where, "component", instruction.component(), -1));
  DPIPE_RETURN_IF_ERROR(
      uses.micro_batch
          ? Within(where, "micro_batch", instruction.micro_batch(), plan.num_micro_batches())
          : Empty(where, "micro_batch", instruction.micro_batch(), -1));
  DPIPE_RETURN_IF_ERROR(uses.peer ? Within(where, "peer", instruction.peer(), plan.devices_size())
                                  : Empty(where, "peer", instruction.peer(), -1));
  DPIPE_RETURN_IF_ERROR(
      uses.peer_stage ? Within(where, "peer_stage", instruction.peer_stage(), shape.num_stages())
                      : Empty(where, "peer_stage", instruction.peer_stage(), -1));
  if (!uses.bytes) DPIPE_RETURN_IF_ERROR(Empty(where, "bytes", instruction.bytes(), 0));
  DPIPE_RETURN_IF_ERROR(uses.offset ? Within(where, "step_offset", instruction.step_offset(), 2)
                                    : Empty(where, "step_offset", instruction.step_offset(), 0));
  if (uses.samples) {
    DPIPE_RETURN_IF_ERROR(
        RangeWithin(where, "samples", instruction.samples(), plan.global_batch()));
  } else {
    DPIPE_RETURN_IF_ERROR(Empty(where, "samples.begin", instruction.samples().begin(), 0));
    DPIPE_RETURN_IF_ERROR(Empty(where, "samples.end", instruction.samples().end(), 0));
  }
  if (!uses.layers) {
    DPIPE_RETURN_IF_ERROR(Empty(where, "layers.begin", instruction.layers().begin(), 0));
    return Empty(where, "layers.end", instruction.layers().end(), 0);
  }
  if (uses.component) {
    return RangeWithin(where, "layers", instruction.layers(),
                       plan.components(instruction.component()).num_layers());
  }
  const LayerRange layers{instruction.layers().begin(), instruction.layers().end()};
  if (!layers.empty() && shape.place(rank).layers.Contains(layers)) return absl::OkStatus();
  return Bad(absl::StrCat(where, "layers ", layers.ToString(),
                          " must be not empty and within the stage's ",
                          shape.place(rank).layers.ToString()));
}

absl::StatusOr<PlanShape> PlanShape::Create(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(CheckHeader(plan, cost));
  DPIPE_RETURN_IF_ERROR(CheckComponents(plan, cost));
  PlanShape shape;
  shape.num_stages_ = plan.stages_size();
  shape.num_micro_batches_ = plan.num_micro_batches();
  shape.micro_batch_size_ = plan.micro_batch_size();
  shape.places_.resize(plan.num_devices());
  const int num_groups = plan.num_devices() / plan.devices_per_pipeline();
  int next_layer = 0;
  for (int s = 0; s < plan.stages_size(); ++s) {
    const Stage& stage = plan.stages(s);
    const std::string where = absl::StrCat("stage ", s, ": ");
    DPIPE_RETURN_IF_ERROR(Same(where + "id", stage.id(), s));
    DPIPE_RETURN_IF_ERROR(Same(where + "component", stage.component(), cost.backbone()));
    DPIPE_RETURN_IF_ERROR(Same(where + "layers.begin", stage.layers().begin(), next_layer));
    DPIPE_RETURN_IF_ERROR(
        RangeWithin(where, "layers", stage.layers(), cost.num_layers(cost.backbone())));
    next_layer = stage.layers().end();
    const int replicas = stage.ranks_size() / num_groups;
    if (replicas < 1 || stage.ranks_size() % num_groups != 0 ||
        plan.micro_batch_size() % replicas != 0) {
      return Bad(absl::StrCat(where, stage.ranks_size(), " ranks over ", num_groups,
                              " pipeline groups cannot share micro-batches of ",
                              plan.micro_batch_size(), " samples evenly"));
    }
    for (int i = 0; i < stage.ranks_size(); ++i) {
      const int rank = stage.ranks(i);
      const int group = i / replicas;
      DPIPE_RETURN_IF_ERROR(Within(where, "rank", rank, plan.num_devices()));
      if (rank / plan.devices_per_pipeline() != group || (i > 0 && rank <= stage.ranks(i - 1))) {
        return Bad(absl::StrCat(where, "rank ", rank, " at place ", i, " is not of pipeline group ",
                                group, " or not in order"));
      }
      if (shape.places_[rank].stage >= 0) {
        return Bad(absl::StrCat("rank ", rank, " holds stage ", shape.places_[rank].stage,
                                " and stage ", s));
      }
      shape.places_[rank] = {
          s, group, replicas, i % replicas, {stage.layers().begin(), stage.layers().end()}};
    }
  }
  DPIPE_RETURN_IF_ERROR(
      Same("the last stage's layers.end", next_layer, cost.num_layers(cost.backbone())));
  for (int r = 0; r < plan.num_devices(); ++r) {
    if (shape.places_[r].stage < 0) return Bad(absl::StrCat("rank ", r, " holds no stage"));
  }
  return shape;
}

SampleRange PlanShape::SamplesOf(int rank, int micro_batch) const {
  const RankPlace& place = places_[rank];
  const int size = micro_batch_size_ / place.replicas;
  const int begin =
      (place.group * num_micro_batches_ + micro_batch) * micro_batch_size_ + place.index * size;
  return {begin, begin + size};
}

}  // namespace dpipe
