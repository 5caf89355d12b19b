#include "core/schedule/file_formats/torch_action.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dpipe {
namespace {

constexpr int kMaxDigits = 6;
constexpr size_t kMaxCellShown = 40;
constexpr char kOverlap[] = ")OVERLAP_F_B";

using Type = TorchActionType;
using Rows = std::vector<std::vector<TorchAction>>;

constexpr std::pair<const char*, Type> kTypes[] = {
    {"F", Type::kForward},
    {"B", Type::kFullBackward},
    {"I", Type::kInputGrad},
    {"W", Type::kWeightGrad},
    {"SEND_F", Type::kSendForward},
    {"RECV_F", Type::kRecvForward},
    {"SEND_B", Type::kSendBackward},
    {"RECV_B", Type::kRecvBackward},
    {"WAIT_SEND_F", Type::kWaitForward},
    {"WAIT_SEND_B", Type::kWaitBackward},
    {"UNSHARD", Type::kUnshard},
    {"RESHARD", Type::kReshard},
    {"REDUCE_GRAD", Type::kReduceGrad},
    {"WAIT_REDUCE_GRAD", Type::kWaitReduceGrad},
};

bool HasMicroBatch(Type type) { return type < Type::kUnshard; }

// A cell that is being parsed.
struct Cell {
  int row = 0, column = 0;
  absl::string_view text;

  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(TorchCellName(row, column, text), what));
  }
};

// Removes the number at the front of `text` and returns it.
absl::StatusOr<int> TakeNumber(const Cell& cell, absl::string_view what, absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  if (digits == 0) return cell.Bad(absl::StrCat("there is no ", what));
  if (digits > kMaxDigits) return cell.Bad(absl::StrCat("the ", what, " is above 999999"));
  if (digits > 1 && (*text)[0] == '0') {
    return cell.Bad(absl::StrCat("the ", what, " begins with a zero"));
  }
  int number = 0;
  for (char digit : text->substr(0, digits)) number = 10 * number + (digit - '0');
  text->remove_prefix(digits);
  return number;
}

// Sets `is_old` if the type is BW; such an action already has the type kFullBackward.
absl::StatusOr<TorchAction> ParseAction(const Cell& cell, absl::string_view text, bool* is_old) {
  TorchAction action;
  action.row = cell.row;
  action.column = cell.column;
  action.cell = std::string(cell.text);
  DPIPE_ASSIGN_OR_RETURN(action.stage, TakeNumber(cell, "stage before the type", &text));
  size_t letters = 0;
  while (letters < text.size() && (absl::ascii_isupper(text[letters]) || text[letters] == '_')) {
    ++letters;
  }
  const absl::string_view name = text.substr(0, letters);
  *is_old = name == "BW";
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& entry) {
    return name == entry.first || (*is_old && entry.second == Type::kFullBackward);
  });
  if (found == std::end(kTypes)) {
    return cell.Bad(absl::StrCat("'", absl::CHexEscape(name.substr(0, kMaxCellShown)),
                                 "' is not a type of action"));
  }
  action.type = found->second;
  text.remove_prefix(letters);
  if (HasMicroBatch(action.type)) {
    DPIPE_ASSIGN_OR_RETURN(action.micro_batch,
                           TakeNumber(cell, "micro-batch after the type", &text));
  }
  if (!text.empty()) {
    return cell.Bad(absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxCellShown)),
                                 "' follows the end of the action"));
  }
  return action;
}

class Parser {
 public:
  absl::Status AddCell(const Cell& cell, std::vector<TorchAction>* row);
  // In a file with older names, turns each B into an input gradient and each BW into a backward
  // pass.
  absl::Status SettleNames(Rows* rows) const;

 private:
  absl::Status Add(const Cell& cell, absl::string_view text, std::vector<TorchAction>* row);

  std::vector<std::pair<int, size_t>> bw_;  // (row, index in the row)
};

absl::Status Parser::Add(const Cell& cell, absl::string_view text, std::vector<TorchAction>* row) {
  bool is_old = false;
  DPIPE_ASSIGN_OR_RETURN(TorchAction action, ParseAction(cell, text, &is_old));
  if (is_old) bw_.push_back({cell.row, row->size()});
  row->push_back(std::move(action));
  return absl::OkStatus();
}

absl::Status Parser::AddCell(const Cell& cell, std::vector<TorchAction>* row) {
  if (cell.text.empty()) return absl::OkStatus();
  if (cell.text[0] != '(') return Add(cell, cell.text, row);
  absl::string_view inner = cell.text.substr(1);
  if (!absl::ConsumeSuffix(&inner, kOverlap)) {
    return cell.Bad("a cell that begins with '(' must end in ')OVERLAP_F_B'");
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(inner, ';');
  if (parts.size() != 2) {
    return cell.Bad(absl::StrCat("an overlap must have 2 actions, not ", parts.size()));
  }
  for (absl::string_view part : parts) DPIPE_RETURN_IF_ERROR(Add(cell, part, row));
  const TorchAction& first = (*row)[row->size() - 2];
  const TorchAction& second = row->back();
  const auto is_backward = [](Type type) {
    return type == Type::kFullBackward || type == Type::kInputGrad;
  };
  if (!((first.type == Type::kForward && is_backward(second.type)) ||
        (second.type == Type::kForward && is_backward(first.type)))) {
    return cell.Bad("an overlap must have a forward and a backward pass");
  }
  if (first.stage == second.stage && first.micro_batch == second.micro_batch) {
    return cell.Bad("the passes of an overlap must differ in stage or micro-batch");
  }
  return absl::OkStatus();
}

absl::Status Parser::SettleNames(Rows* rows) const {
  const TorchAction* input_grad = nullptr;
  bool has_weight_grad = false;
  for (const auto& row : *rows) {
    for (const TorchAction& action : row) {
      if (action.type == Type::kInputGrad && input_grad == nullptr) input_grad = &action;
      has_weight_grad |= action.type == Type::kWeightGrad;
    }
  }
  if (input_grad != nullptr && !bw_.empty()) {
    const TorchAction& bw = (*rows)[bw_[0].first][bw_[0].second];
    return absl::InvalidArgumentError(
        absl::StrCat(TorchCellName(bw), "BW is an older name, but row ", input_grad->row + 1,
                     ", column ", input_grad->column + 1, " has I, which is a newer name"));
  }
  const bool is_old = !bw_.empty() || (has_weight_grad && input_grad == nullptr);
  if (!is_old) return absl::OkStatus();
  for (auto& row : *rows) {
    for (TorchAction& action : row) {
      if (action.type == Type::kFullBackward) action.type = Type::kInputGrad;
    }
  }
  for (const auto& [row, index] : bw_) (*rows)[row][index].type = Type::kFullBackward;
  return absl::OkStatus();
}

}  // namespace

absl::string_view TorchTypeName(TorchActionType type) {
  for (const auto& [name, value] : kTypes) {
    if (value == type) return name;
  }
  return "?";
}

std::string TorchCellName(int row, int column, absl::string_view cell) {
  const bool is_long = cell.size() > kMaxCellShown;
  return absl::StrCat("row ", row + 1, " (rank ", row, "), column ", column + 1, " ('",
                      absl::CHexEscape(cell.substr(0, kMaxCellShown)), is_long ? "..." : "",
                      "'): ");
}

std::string TorchCellName(const TorchAction& action) {
  return TorchCellName(action.row, action.column, action.cell);
}

absl::StatusOr<Rows> ParseTorchActions(absl::string_view text) {
  absl::ConsumeSuffix(&text, "\n");
  absl::ConsumeSuffix(&text, "\r");
  Rows rows;
  Parser parser;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    rows.emplace_back();
    Cell cell;
    cell.row = static_cast<int>(rows.size()) - 1;
    for (absl::string_view field : absl::StrSplit(line, ',')) {
      size_t begin = field.find_first_not_of(" \t");
      cell.text = begin == absl::string_view::npos
                      ? absl::string_view()
                      : field.substr(begin, field.find_last_not_of(" \t") - begin + 1);
      DPIPE_RETURN_IF_ERROR(parser.AddCell(cell, &rows.back()));
      ++cell.column;
    }
    if (rows.back().empty()) {
      return absl::InvalidArgumentError(absl::StrCat("row ", rows.size(), " (rank ",
                                                     rows.size() - 1, "), columns 1 to ",
                                                     cell.column, ": the rank has no actions"));
    }
  }
  DPIPE_RETURN_IF_ERROR(parser.SettleNames(&rows));
  return rows;
}

}  // namespace dpipe
