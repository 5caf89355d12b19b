#include "data/quarantine_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

bool ParseEntry(absl::string_view line, QuarantineEntry* entry) {
  const auto json = ParseJsonObject(line, "entry");
  for (const char* key : {"path", "reason"}) {
    if (!json.ok() || !json->contains(key) || !(*json)[key].is_string()) return false;
  }
  *entry = {(*json)["path"], (*json)["reason"]};
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<QuarantineLog>> QuarantineLog::Open(const std::string& path,
                                                                   Use use) {
  if (use != Use::kRead) DPIPE_RETURN_IF_ERROR(MakeParentFolder(path));
  auto log = std::unique_ptr<QuarantineLog>(new QuarantineLog(path, use));
  const auto content = ReadFile(path);
  if (absl::IsNotFound(content.status())) return log;
  DPIPE_RETURN_IF_ERROR(content.status());
  const size_t finished = content->rfind('\n') + 1;  // 0 if there is none
  std::set<std::string> seen;
  int line_number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(*content).substr(0, finished), '\n')) {
    ++line_number;
    if (line.empty()) continue;
    QuarantineEntry entry;
    if (!ParseEntry(line, &entry)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", line_number, ": expected {\"path\": ..., \"reason\": ...}"));
    }
    if (seen.insert(entry.path).second) log->known_.push_back(std::move(entry));
  }
  if (finished == content->size()) return log;
  // An unfinished line of ours starts with a brace. Anything else is another file.
  if ((*content)[finished] != '{') {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " line ", line_number, ": expected {\"path\": ..., \"reason\": ...}"));
  }
  if (use == Use::kRead) return log;
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, content->substr(0, finished)));
  return log;
}

absl::Status QuarantineLog::Append(const QuarantineEntry& entry) const {
  if (use_ == Use::kRead) return absl::OkStatus();
  const nlohmann::ordered_json json = {{"path", entry.path}, {"reason", entry.reason}};
  // Paths are bytes, not always UTF-8.
  const std::string line =
      json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n";
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenToAppend(path_, /*truncate=*/false));
  const ssize_t written = write(fd.get(), line.data(), line.size());
  const bool good = written == static_cast<ssize_t>(line.size()) && fsync(fd.get()) == 0;
  if (good) return absl::OkStatus();
  const std::string reason = written >= 0 ? "the disk may be full" : strerror(errno);
  return absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", reason));
}

}  // namespace dpipe
