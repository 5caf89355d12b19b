#include "tools/training/set_aside.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/text/shell_quote.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;

// Suffixes of everything that a run writes beside its model, except checkpoints. Those are not
// renamed as a whole, because this process holds their folder.
constexpr const char* kSuffixes[] = {"",
                                     ".log.jsonl",
                                     ".mllog",
                                     ".tensorboard",
                                     ".samples",
                                     ".config.textproto",
                                     ".profile.textproto",
                                     ".cluster.textproto",
                                     ".best",
                                     ".bad_batches"};
constexpr char kCheckpoints[] = ".checkpoints";

struct Renaming {
  std::string from, to;
};

std::vector<Renaming> RenamingsTo(const std::string& out, const std::string& log_path,
                                  const std::string& ending) {
  std::vector<Renaming> all;
  for (const char* suffix : kSuffixes) all.push_back({out + suffix, out + ending + suffix});
  if (log_path != out + ".log.jsonl") all.push_back({log_path, log_path + ending});
  return all;
}

// Empty folders are not worth keeping, and special files such as /dev/null are not logs.
bool HasContent(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return !fs::is_empty(path, error);
  return fs::is_regular_file(path, error);
}

bool IsFree(const std::string& out, const std::vector<Renaming>& renamings,
            const std::string& ending) {
  std::error_code error;
  for (const Renaming& renaming : renamings) {
    if (fs::exists(fs::symlink_status(renaming.to, error))) return false;
  }
  return !fs::exists(out + ending + kCheckpoints, error);
}

// If `folder` is on another file system, checkpoints stay in their folder under other names.
absl::Status SetCheckpointsAside(const std::string& folder, CheckpointFolder* checkpoints,
                                 RunAside* aside) {
  const auto moved = checkpoints->MoveAllTo(folder);
  if (moved.ok()) {
    aside->has_checkpoints = *moved > 0;
    if (*moved > 0) aside->paths.push_back(folder);
    return absl::OkStatus();
  }
  std::error_code error;
  fs::remove(folder, error);  // it is empty
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> renamed, checkpoints->SetAsideAfter(-1));
  aside->paths.insert(aside->paths.end(), renamed.begin(), renamed.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunAside> SetRunAside(const std::string& out, const std::string& log_path,
                                     CheckpointFolder* checkpoints) {
  std::string ending = ".aside";
  std::vector<Renaming> renamings = RenamingsTo(out, log_path, ending);
  for (int i = 2; !IsFree(out, renamings, ending); ++i) {
    ending = absl::StrCat(".aside", i);
    renamings = RenamingsTo(out, log_path, ending);
  }
  RunAside aside;
  aside.out = out + ending;
  for (const Renaming& renaming : renamings) {
    if (!HasContent(renaming.from)) continue;
    std::error_code error;
    fs::rename(renaming.from, renaming.to, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("the run in ", out, " cannot be set aside: cannot rename ", renaming.from,
                       " to ", renaming.to, ": ", error.message(), "; choose another --out"));
    }
    aside.paths.push_back(renaming.to);
  }
  // Checkpoints move last: while they are there, a new run does not replace the unfinished one.
  DPIPE_RETURN_IF_ERROR(SetCheckpointsAside(aside.out + kCheckpoints, checkpoints, &aside));
  aside.bytes = BytesIn(aside.paths);
  return aside;
}

std::vector<std::string> PlacesOfRun(const std::string& out, const std::string& log_path) {
  std::vector<std::string> places;
  for (const Renaming& renaming : RenamingsTo(out, log_path, /*ending=*/"")) {
    places.push_back(renaming.from);
  }
  places.push_back(out + kCheckpoints);
  return places;
}

absl::StatusOr<std::vector<std::string>> PathsOfRun(const std::string& out,
                                                    const std::string& log_path,
                                                    const CheckpointFolder& checkpoints) {
  std::vector<std::string> paths;
  for (const Renaming& renaming : RenamingsTo(out, log_path, /*ending=*/"")) {
    if (HasContent(renaming.from)) paths.push_back(renaming.from);
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, checkpoints.Steps());
  if (!steps.empty()) paths.push_back(checkpoints.path());
  return paths;
}

std::string DescribeAside(const std::string& out, const RunAside& aside) {
  std::string text = absl::StrCat("Aside:    the run that was in ", out, " is now ", aside.out,
                                  " (", FormatBytes(aside.bytes), ")");
  if (aside.has_checkpoints) {
    absl::StrAppend(&text, "\n          resume it: ", ShellCommand({"--out=" + aside.out}),
                    " --resume=auto");
  }
  absl::StrAppend(&text, "\n          delete it: rm -r ", ShellCommand(aside.paths));
  return text;
}

int64_t BytesIn(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  std::error_code error;
  for (const std::string& path : paths) {
    if (fs::is_regular_file(path, error)) bytes += fs::file_size(path, error);
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code of_entry;
      if (it->is_regular_file(of_entry)) bytes += it->file_size(of_entry);
    }
  }
  return bytes;
}

}  // namespace dpipe::tools
