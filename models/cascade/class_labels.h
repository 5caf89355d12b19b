// Which class of a class-conditional model a caption means.
#ifndef DPIPE_MODELS_CASCADE_CLASS_LABELS_H_
#define DPIPE_MODELS_CASCADE_CLASS_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// A folder's classes.txt has a name a line: class i is line i, from 0. A caption that names none,
// or any where there is no such file, is the class's number. A table with one row more than there
// are names has a row for "no class", the last, which guidance needs.
class ClassLabels {
 public:
  // `table_rows`: of the model's table. InvalidArgument where they do not suit the names.
  static absl::StatusOr<ClassLabels> Read(const std::string& path, int64_t table_rows);
  static absl::StatusOr<ClassLabels> Create(std::vector<std::string> names, int64_t table_rows);

  bool has_no_class() const { return has_no_class_; }
  // The row of "no class".
  int32_t no_class() const { return static_cast<int32_t>(rows_ - 1); }
  const std::vector<std::string>& names() const { return names_; }

  // The class whose name comes first in the caption, the longest of those that begin there; names
  // begin and end at the caption's ends or spaces. Where none is there, the class whose number the
  // caption is. Empty: "no class", where there is that.
  // InvalidArgument for a caption with no class.
  absl::StatusOr<int32_t> LabelOf(const std::string& caption) const;

 private:
  ClassLabels(std::vector<std::string> names, int64_t rows, bool has_no_class)
      : names_(std::move(names)), rows_(rows), has_no_class_(has_no_class) {}

  std::vector<std::string> names_;
  int64_t rows_ = 0;
  bool has_no_class_ = false;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CASCADE_CLASS_LABELS_H_
