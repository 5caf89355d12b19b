#include "core/train/checkpoint/checkpoint_reader.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/files/durable_file.h"
#include "core/base/files/file.h"
#include "core/train/checkpoint/checkpoint_manifest.h"
#include "core/train/checkpoint/checkpoint_writer.h"

namespace dpipe {
namespace {

absl::Status Incomplete(const std::string& folder, const std::string& why) {
  return absl::DataLossError(absl::StrCat(folder, " is not a complete checkpoint: ", why));
}

absl::Status CheckFile(const std::string& folder, const std::string& name,
                       const FileDigest& expected) {
  const auto found = DigestFile(folder + "/" + name);
  if (!found.ok()) return Incomplete(folder, std::string(found.status().message()));
  if (found->size != expected.size) {
    return Incomplete(folder,
                      absl::StrCat(name, " has ", found->size, " bytes, not ", expected.size));
  }
  if (found->crc32c != expected.crc32c) {
    return Incomplete(folder, absl::StrFormat("%s has the checksum %08x, not %08x", name,
                                              found->crc32c, expected.crc32c));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder) {
  const auto text = ReadFile(folder + "/" + kManifestFile, /*max_bytes=*/1 << 24);
  if (!text.ok()) return Incomplete(folder, std::string(text.status().message()));
  auto manifest = ParseManifest(*text);
  if (!manifest.ok()) return Incomplete(folder, std::string(manifest.status().message()));
  return manifest;
}

// Copies the elements of the part that `state` describes.
absl::Status ReadPart(const SafetensorsFile& file, const StateTensor& state) {
  const SafetensorsView* view = file.Find(state.parameter);
  if (view == nullptr) {
    return absl::NotFoundError(absl::StrCat(file.name(), " has no ", state.parameter));
  }
  const auto dims = state.whole.dims();
  const std::vector<int64_t> shape(dims.begin(), dims.end());
  const std::string dtype = SafetensorsDtype(state.part.dtype());
  if (view->shape != shape || view->dtype != dtype) {
    const Shape stored(absl::MakeConstSpan(view->shape));
    return absl::InvalidArgumentError(
        absl::StrCat(file.name(), ": ", state.parameter, " is ", view->dtype, " ",
                     stored.ToString(), ", expected ", dtype, " ", state.whole.ToString()));
  }
  const int64_t at = state.begin * SizeOf(state.part.dtype());
  state.part.device()->CopyFromHost(state.part.raw_data(), view->bytes.data() + at,
                                    state.part.size_bytes());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("there is no folder ", folder));
  }
  DPIPE_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(folder));
  auto checkpoint = std::unique_ptr<Checkpoint>(new Checkpoint());
  checkpoint->folder_ = folder;
  for (const auto& [name, digest] : manifest.files) {
    DPIPE_RETURN_IF_ERROR(CheckFile(folder, name, digest));
    absl::string_view kind = name;
    if (!absl::ConsumeSuffix(&kind, TensorFileName(""))) continue;
    DPIPE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(folder + "/" + name));
    checkpoint->tensors_.emplace(std::string(kind), std::move(file));
  }
  if (manifest.files.count(kStateFile) == 0) {
    return Incomplete(folder, absl::StrCat("its manifest has no ", kStateFile));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string state, ReadFile(folder + "/" + kStateFile));
  auto info = ParseCheckpointInfo(state);
  if (!info.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/", kStateFile, ": ", info.status().message()));
  }
  checkpoint->info_ = *std::move(info);
  return checkpoint;
}

absl::StatusOr<std::string> Checkpoint::Text(const std::string& name) const {
  return ReadFile(folder_ + "/" + name);
}

StateReader Checkpoint::reader() const {
  return [files = tensors_, folder = folder_](const StateTensor& state) -> absl::Status {
    const auto file = files.find(state.kind);
    if (file == files.end()) {
      return absl::NotFoundError(absl::StrCat(folder, " has no ", TensorFileName(state.kind)));
    }
    return ReadPart(file->second, state);
  };
}

}  // namespace dpipe
