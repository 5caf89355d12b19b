// Maps captions to the classes of a class-conditional model.
#ifndef DPIPE_MODELS_CASCADE_CLASS_LABELS_H_
#define DPIPE_MODELS_CASCADE_CLASS_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// A folder's classes.txt has one name per line: class i is line i, counted from 0. A caption that
// contains no name, or any caption if there is no such file, must be a class number. If the table
// has one row more than there are names, the last row is "no class", which guidance needs.
class ClassLabels {
 public:
  // `table_rows` is that of the model's table. Returns InvalidArgument if it does not match the
  // number of names.
  static absl::StatusOr<ClassLabels> Read(const std::string& path, int64_t table_rows);
  static absl::StatusOr<ClassLabels> Create(std::vector<std::string> names, int64_t table_rows);

  bool has_no_class() const { return has_no_class_; }
  // Returns the row of "no class".
  int32_t no_class() const { return static_cast<int32_t>(rows_ - 1); }
  const std::vector<std::string>& names() const { return names_; }

  // Returns the class whose name comes first in the caption; if several begin there, the longest.
  // Names begin and end at spaces or at the caption's ends. If there is none, returns the class
  // whose number the caption is. Returns "no class" for an empty caption if the table has that row.
  // Returns InvalidArgument for a caption without a class.
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
