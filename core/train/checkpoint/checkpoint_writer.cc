#include "core/train/checkpoint/checkpoint_writer.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/files/durable_file.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/base/files/replace_folder.h"
#include "core/tensor/safetensors_prefix.h"
#include "core/train/checkpoint/checkpoint_manifest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

// Writes the files of one folder and lists them in its manifest.
class FolderWriter {
 public:
  explicit FolderWriter(std::string folder) : folder_(std::move(folder)) {}

  absl::Status WriteText(const std::string& name, const std::string& text) {
    DPIPE_ASSIGN_OR_RETURN(auto file, Create(name));
    DPIPE_RETURN_IF_ERROR(file->Append(text));
    return Finish(name, file.get());
  }

  // Writes tensors of one kind, sorted by parameter and position.
  absl::Status WriteTensors(absl::Span<const StateTensor> tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const StateTensor& tensor : tensors) {
      if (tensor.begin > 0) continue;  // continues the previous part
      const auto dims = tensor.whole.dims();
      entries.push_back({tensor.parameter, SafetensorsDtype(tensor.part.dtype()),
                         std::vector<int64_t>(dims.begin(), dims.end())});
    }
    DPIPE_ASSIGN_OR_RETURN(const std::string prefix, SafetensorsPrefix(entries));
    const std::string name = TensorFileName(tensors.front().kind);
    DPIPE_ASSIGN_OR_RETURN(auto file, Create(name));
    DPIPE_RETURN_IF_ERROR(file->Append(prefix));
    for (const StateTensor& tensor : tensors) {
      const Tensor part = tensor.part.ToHost();
      const auto* bytes = static_cast<const char*>(part.raw_data());
      const size_t size = part.size_bytes();
      DPIPE_RETURN_IF_ERROR(file->Append(absl::string_view(bytes, size)));
    }
    return Finish(name, file.get());
  }

  absl::Status WriteManifest(int64_t step) {
    manifest_.step = step;
    const CheckpointManifest listed = manifest_;
    return WriteText(kManifestFile, ManifestText(listed));
  }

  int64_t bytes_written() const {
    int64_t sum = 0;
    for (const auto& [name, digest] : manifest_.files) sum += digest.size;
    return sum;
  }

 private:
  absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& name) const {
    return DurableFile::Create(folder_ + "/" + name);
  }
  absl::Status Finish(const std::string& name, DurableFile* file) {
    DPIPE_RETURN_IF_ERROR(file->Finish());
    manifest_.files[name] = file->digest();
    return absl::OkStatus();
  }

  const std::string folder_;
  CheckpointManifest manifest_;
};

absl::StatusOr<int64_t> WriteFiles(const std::string& folder, const CheckpointContent& content) {
  FolderWriter writer(folder);
  const std::vector<StateTensor>& tensors = content.state.tensors;
  for (size_t begin = 0, end; begin < tensors.size(); begin = end) {
    for (end = begin + 1; end < tensors.size() && tensors[end].kind == tensors[begin].kind;) ++end;
    DPIPE_RETURN_IF_ERROR(writer.WriteTensors(absl::MakeSpan(tensors).subspan(begin, end - begin)));
  }
  for (const auto& [name, text] : content.texts) {
    DPIPE_RETURN_IF_ERROR(writer.WriteText(name, text));
  }
  DPIPE_RETURN_IF_ERROR(writer.WriteText(kStateFile, CheckpointInfoText(content.info)));
  DPIPE_RETURN_IF_ERROR(writer.WriteManifest(content.info.step));
  DPIPE_RETURN_IF_ERROR(SyncFolder(folder));
  return writer.bytes_written();
}

absl::Status ClearFolder(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove ", folder, ": ", error.message()));
}

}  // namespace

std::string TensorFileName(const std::string& kind) { return kind + ".safetensors"; }

absl::StatusOr<int64_t> WriteCheckpoint(const std::string& folder,
                                        const CheckpointContent& content) {
  const std::string unfinished = folder + kUnfinishedSuffix;
  DPIPE_RETURN_IF_ERROR(ClearFolder(unfinished));
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(unfinished));
  DPIPE_RETURN_IF_ERROR(MakeOwnFolder(unfinished));
  auto written = WriteFiles(unfinished, content);
  absl::Status status = written.status();
  if (status.ok()) status = ReplaceFolder(unfinished, folder);
  if (!status.ok()) {
    (void)ClearFolder(unfinished);
    return absl::Status(status.code(), absl::StrCat("the checkpoint of step ", content.info.step,
                                                    " was not written: ", status.message()));
  }
  const std::string parent = fs::path(folder).parent_path().string();
  DPIPE_RETURN_IF_ERROR(SyncFolder(parent.empty() ? "." : parent));
  return written;
}

}  // namespace dpipe
