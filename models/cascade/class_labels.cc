#include "models/cascade/class_labels.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/text/plain_text.h"
#include "core/base/text/show.h"

namespace dpipe::models {

absl::StatusOr<ClassLabels> ClassLabels::Read(const std::string& path, int64_t table_rows) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Create({}, table_rows);
  DPIPE_ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(const std::string text, PlainText(std::move(content), path));
  std::vector<std::string> names = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  for (std::string& name : names) absl::StripTrailingAsciiWhitespace(&name);  // CR LF too
  auto labels = Create(std::move(names), table_rows);
  if (labels.ok()) return labels;
  return absl::Status(labels.status().code(), absl::StrCat(path, ": ", labels.status().message()));
}

absl::StatusOr<ClassLabels> ClassLabels::Create(std::vector<std::string> names,
                                                int64_t table_rows) {
  const int64_t count = static_cast<int64_t>(names.size());
  if (count > 0 && table_rows != count && table_rows != count + 1) {
    return absl::InvalidArgumentError(absl::StrCat(count, " classes, but the model has ",
                                                   table_rows, " rows for them; expected ", count,
                                                   " or ", count + 1));
  }
  return ClassLabels(std::move(names), table_rows, count > 0 && table_rows == count + 1);
}

absl::StatusOr<int32_t> ClassLabels::LabelOf(const std::string& caption) const {
  if (caption.empty() && has_no_class_) return no_class();
  const std::string text = absl::StrCat(" ", caption, " ");
  size_t best_place = std::string::npos;
  int32_t best = -1;
  for (size_t i = 0; i < names_.size(); ++i) {
    const size_t place = text.find(absl::StrCat(" ", names_[i], " "));
    if (place == std::string::npos || place > best_place) continue;
    if (place == best_place && names_[i].size() <= names_[best].size()) continue;
    best_place = place;
    best = static_cast<int32_t>(i);
  }
  if (best >= 0) return best;
  const int64_t classes = has_no_class_ ? rows_ - 1 : rows_;
  int32_t number = -1;
  if (absl::SimpleAtoi(caption, &number) && number >= 0 && number < classes) return number;
  if (names_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("caption '", ShowText(caption), "' is not a class number below ", classes,
                     "; class names need a classes.txt in the model's folder"));
  }
  return absl::InvalidArgumentError(absl::StrCat("caption '", ShowText(caption),
                                                 "' contains none of the ", classes,
                                                 " class names and is not a class number"));
}

}  // namespace dpipe::models
