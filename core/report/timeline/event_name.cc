// Human-readable names and descriptions of instructions.
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/proto/instruction_parts.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {
namespace {

// Returns "4-7" for [4, 8), "4" for [4, 5).
std::string RangeText(const Range& range) {
  if (range.end() - range.begin() == 1) return absl::StrCat(range.begin());
  return absl::StrCat(range.begin(), "-", range.end() - 1);
}

bool IsEmpty(const Range& range) { return range.end() <= range.begin(); }

std::string MessageName(const Plan& plan, const Instruction& instruction) {
  std::string what;
  switch (instruction.payload()) {
    case Instruction::ACTIVATION:
      what = absl::StrCat("act ", instruction.micro_batch());
      break;
    case Instruction::GRADIENT:
      what = absl::StrCat("grad ", instruction.micro_batch());
      break;
    case Instruction::FROZEN_OUTPUT:
      what = absl::StrCat(ShortComponentName(ComponentName(plan, instruction.component())), " out");
      break;
    case Instruction::FROZEN_VALUES:
      what = absl::StrCat(ShortComponentName(ComponentName(plan, instruction.component())), " at ",
                          instruction.layers().begin());
      break;
    default:
      what = "message";
  }
  return absl::StrCat(what, instruction.kind() == Instruction::SEND ? " → " : " ← ",
                      instruction.peer());
}

std::string DescribeMessage(const Plan& plan, const Instruction& instruction) {
  std::string what = "data";
  if (instruction.payload() == Instruction::ACTIVATION) {
    what = absl::StrCat("activations of micro-batch ", instruction.micro_batch());
  } else if (instruction.payload() == Instruction::GRADIENT) {
    what = absl::StrCat("gradients of micro-batch ", instruction.micro_batch());
  } else if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
    what = absl::StrCat("outputs of ", ComponentName(plan, instruction.component()));
  } else if (instruction.payload() == Instruction::FROZEN_VALUES) {
    what = absl::StrCat("values of ", ComponentName(plan, instruction.component()));
  }
  return absl::StrCat(what, instruction.kind() == Instruction::SEND ? " to" : " from", " device ",
                      instruction.peer());
}

const char* PassName(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::FORWARD:
      return "forward";
    case Instruction::BACKWARD:
      return "backward";
    case Instruction::INPUT_GRAD:
      return "input gradient";
    default:
      return "weight gradient";
  }
}

// Returns "stage 1", or "stage 5 (place 1 of chain 1)" if there are several chains; notes the first
// lap.
std::string StageText(const Plan& plan, int id) {
  std::string text = absl::StrCat("stage ", id);
  const Stage* stage = FindStage(plan, id);
  if (stage == nullptr) return text;
  if (plan.chains_size() > 1 && stage->chain() >= 0 && stage->chain() < plan.chains_size()) {
    absl::StrAppend(&text, " (place ", id - plan.chains(stage->chain()).first_stage(), " of chain ",
                    stage->chain(), ")");
  }
  if (stage->forward_only()) text += " (first lap, no gradients)";
  return text;
}

// Describes the instruction without layers and samples.
std::string DescribeKind(const Plan& plan, const Instruction& instruction) {
  switch (instruction.kind()) {
    case Instruction::LOAD_BATCH:
      return absl::StrCat("loading inputs of ", ComponentName(plan, instruction.component()));
    case Instruction::FORWARD:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      return absl::StrCat(PassName(instruction.kind()), " of micro-batch ",
                          instruction.micro_batch(), ", ", StageText(plan, instruction.stage()));
    case Instruction::FROZEN_FORWARD:
      return absl::StrCat(ComponentName(plan, instruction.component()), " (frozen)");
    case Instruction::SEND:
    case Instruction::RECV:
      return DescribeMessage(plan, instruction);
    case Instruction::GATHER_PARAMS:
      return absl::StrCat("gathering parameters of stage ", instruction.stage());
    case Instruction::RELEASE_PARAMS:
      return absl::StrCat("releasing parameters of stage ", instruction.stage());
    case Instruction::REDUCE_GRADS:
      return absl::StrCat("gradient sync of stage ", instruction.stage());
    case Instruction::SYNC_PARAMS:
      return absl::StrCat("sharing updates of stage ", instruction.stage());
    case Instruction::OPTIMIZER_STEP:
      return "optimizer step";
    case Instruction::RECOMPUTE:
      return absl::StrCat("recomputing the forward of micro-batch ", instruction.micro_batch(),
                          ", ", StageText(plan, instruction.stage()));
    case Instruction::FLUSH:
      return "flush: all devices wait until their messages have arrived";
    default:
      return "unknown instruction";
  }
}

// Returns "·s2" if the first rank of the instruction's stage also holds other stages. All ranks of
// a stage hold the same ones.
std::string StageSuffix(const Plan& plan, const Instruction& instruction) {
  const Stage* own = FindStage(plan, instruction.stage());
  if (own == nullptr || own->ranks_size() == 0) return "";
  for (const Stage& stage : plan.stages()) {
    if (&stage == own) continue;
    for (int rank : stage.ranks()) {
      if (rank == own->ranks(0)) return absl::StrCat("·s", instruction.stage());
    }
  }
  return "";
}

// Returns a letter, the micro-batch, and the stage if it is ambiguous.
std::string PassText(const Plan& plan, const Instruction& instruction, char letter) {
  return absl::StrCat(std::string(1, letter), instruction.micro_batch(),
                      StageSuffix(plan, instruction));
}

}  // namespace

const Stage* FindStage(const Plan& plan, int id) {
  if (id >= 0 && id < plan.stages_size() && plan.stages(id).id() == id) return &plan.stages(id);
  for (const Stage& stage : plan.stages()) {
    if (stage.id() == id) return &stage;
  }
  return nullptr;
}

std::string ShortComponentName(const std::string& name) {
  constexpr size_t kShort = 8;
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "vae")) return "VAE";
  if (absl::StrContains(lower, "text")) return "text";
  if (absl::StrContains(lower, "control") || absl::StrContains(lower, "locked")) return "locked";
  return name.size() <= kShort ? name : name.substr(0, kShort);
}

std::string EventName(const Plan& plan, const Instruction& instruction) {
  switch (instruction.kind()) {
    case Instruction::LOAD_BATCH:
      return "load";
    case Instruction::FORWARD:
      return PassText(plan, instruction, 'F');
    case Instruction::BACKWARD:
      return PassText(plan, instruction, 'B');
    case Instruction::INPUT_GRAD:
      return PassText(plan, instruction, 'I');
    case Instruction::WEIGHT_GRAD:
      return PassText(plan, instruction, 'W');
    case Instruction::FROZEN_FORWARD: {
      const std::string name = ShortComponentName(ComponentName(plan, instruction.component()));
      return IsEmpty(instruction.layers())
                 ? name
                 : absl::StrCat(name, " L", RangeText(instruction.layers()));
    }
    case Instruction::SEND:
    case Instruction::RECV:
      return MessageName(plan, instruction);
    case Instruction::GATHER_PARAMS:
      return "gather";
    case Instruction::RELEASE_PARAMS:
      return "release";
    case Instruction::REDUCE_GRADS:
    case Instruction::SYNC_PARAMS:
      return "sync";
    case Instruction::OPTIMIZER_STEP:
      return "opt";
    case Instruction::RECOMPUTE:
      return PassText(plan, instruction, 'R');
    case Instruction::FLUSH:
      return "flush";
    default:
      return "?";
  }
}

std::string DescribeWork(const Plan& plan, const Instruction& instruction) {
  switch (instruction.kind()) {
    case Instruction::FORWARD:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      return absl::StrCat(PassName(instruction.kind()), ", ", StageText(plan, instruction.stage()));
    case Instruction::RECOMPUTE:
      return absl::StrCat("recomputing the forward, ", StageText(plan, instruction.stage()));
    default:
      return DescribeKind(plan, instruction);
  }
}

std::string DescribeInstruction(const Plan& plan, const Instruction& instruction) {
  std::string text = DescribeKind(plan, instruction);
  if (!IsEmpty(instruction.layers()))
    absl::StrAppend(&text, ", layers ", RangeText(instruction.layers()));
  if (!IsEmpty(instruction.samples())) {
    absl::StrAppend(&text, ", samples ", RangeText(instruction.samples()));
  }
  if (instruction.step_offset() > 0) text += ", for the next step";
  return text;
}

}  // namespace dpipe::report
