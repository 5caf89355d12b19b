// A file with the samples that could not be read, kept beyond the run: one JSON object {"path":
// ..., "reason": ...} per line.
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
  // kRead: changes no file.
  enum class Use { kReadAndAppend, kRead };

  // Reads the entries of earlier runs. If the file is missing, the list is empty; its folder is
  // created for appending. Removes a last line that a killed process left unfinished (kRead ignores
  // it). Returns InvalidArgument with file and line, and leaves the file unchanged, if it is
  // something else.
  static absl::StatusOr<std::unique_ptr<QuarantineLog>> Open(const std::string& path,
                                                             Use use = Use::kReadAndAppend);

  // The entries at the time of opening, in the file's order, each path once.
  const std::vector<QuarantineEntry>& known() const { return known_; }

  // Appends a line by a single write and flushes it, so that several processes may share a file.
  // Does nothing with kRead.
  absl::Status Append(const QuarantineEntry& entry) const;

 private:
  QuarantineLog(std::string path, Use use) : path_(std::move(path)), use_(use) {}

  std::string path_;
  Use use_;
  std::vector<QuarantineEntry> known_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_QUARANTINE_LOG_H_
