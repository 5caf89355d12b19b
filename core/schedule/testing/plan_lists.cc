#include "core/schedule/testing/plan_lists.h"

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

const char* LetterOf(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::LOAD_BATCH:
      return "L";
    case Instruction::FROZEN_FORWARD:
      return "Z";
    case Instruction::FORWARD:
      return "F";
    case Instruction::BACKWARD:
      return "B";
    case Instruction::INPUT_GRAD:
      return "I";
    case Instruction::WEIGHT_GRAD:
      return "W";
    case Instruction::RECOMPUTE:
      return "C";
    case Instruction::SEND:
      return ">";
    case Instruction::RECV:
      return "<";
    case Instruction::REDUCE_GRADS:
      return "R";
    case Instruction::GATHER_PARAMS:
      return "G";
    case Instruction::RELEASE_PARAMS:
      return "D";
    case Instruction::FLUSH:
      return "X";
    case Instruction::SYNC_PARAMS:
      return "S";
    case Instruction::OPTIMIZER_STEP:
      return "O";
    default:
      return "?";
  }
}

std::string WordOf(const Instruction& i, const ListStyle& style) {
  std::string word = LetterOf(i.kind());
  const bool message = i.kind() == Instruction::SEND || i.kind() == Instruction::RECV;
  const bool of_layers =
      i.kind() == Instruction::REDUCE_GRADS || i.kind() == Instruction::GATHER_PARAMS ||
      i.kind() == Instruction::RELEASE_PARAMS || i.kind() == Instruction::SYNC_PARAMS;
  if (message) {
    absl::StrAppend(&word, i.peer());
  } else if (of_layers) {
    absl::StrAppend(&word, i.layers().begin(), "-", i.layers().end());
  } else if (i.micro_batch() >= 0) {
    if (style.stages && i.stage() >= 0) absl::StrAppend(&word, i.stage(), ".");
    absl::StrAppend(&word, i.micro_batch());
  }
  if (style.samples && i.has_samples()) {
    absl::StrAppend(&word, "[", i.samples().begin(), ",", i.samples().end(), ")");
  }
  return word;
}

}  // namespace

std::string ListOf(const Plan& plan, int rank, const ListStyle& style) {
  std::string text;
  for (const Instruction& i : plan.devices(rank).instructions()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", WordOf(i, style));
  }
  return text;
}

}  // namespace dpipe
