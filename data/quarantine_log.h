// The list of samples that could not be read, in a file that outlives the run: one JSON object
// {"path": ..., "reason": ...} a line.
#ifndef DPIPE_DATA_QUARANTINE_LOG_H_
#define DPIPE_DATA_QUARANTINE_LOG_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

struct QuarantineEntry {
  std::string path;
  std::string reason;
};

class QuarantineLog {
 public:
  // kRead changes no file.
  enum class Use { kReadAndAppend, kRead };

  // Reads what earlier runs found; a file that is not there is an empty list (its folder is made,
  // to append). A last line that a killed process left unfinished is dropped. InvalidArgument,
  // naming file and line, for a file that is something else: it is left as it is.
  static absl::StatusOr<std::unique_ptr<QuarantineLog>> Open(const std::string& path,
                                                             Use use = Use::kReadAndAppend);

  // What was there when it was opened, in the file's order, each path once.
  const std::vector<QuarantineEntry>& known() const { return known_; }

  // Adds a line by one write at the file's end, and flushes it: several processes may share a file.
  // Nothing where it is only read.
  absl::Status Append(const QuarantineEntry& entry) const;

 private:
  QuarantineLog(std::string path, Use use) : path_(std::move(path)), use_(use) {}

  std::string path_;
  Use use_;
  std::vector<QuarantineEntry> known_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_QUARANTINE_LOG_H_
