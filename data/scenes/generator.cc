#include "data/scenes/generator.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/base/text/json.h"
#include "data/images/image_encode.h"
#include "data/scenes/scene.h"
#include "data/scenes/scene_caption.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGeneratorVersion = 1;  // raise it if the same options would give other files
constexpr int kJpegEvery = 8;
constexpr int kProgressEvery = 256;

Json ManifestOf(const BuiltInDatasetOptions& options) {
  Json manifest = {{"generator", "dpipe scenes"},
                   {"version", kGeneratorVersion},
                   {"count", options.count},
                   {"seed", options.seed},
                   {"image_size", options.image_size}};
  if (options.with_conditions) manifest["conditions"] = "outlines";
  if (options.max_aspect > 1) manifest["max_aspect"] = options.max_aspect;
  return manifest;
}

std::string FileNameOf(int index) {
  return absl::StrFormat("%05d.%s", index, index % kJpegEvery == kJpegEvery - 1 ? "jpg" : "png");
}

std::string ConditionNameOf(int index) { return absl::StrFormat("conditioning/%05d.png", index); }

bool FileExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

bool HasEntries(const std::string& folder) {
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(directory)) {
    found |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  }
  closedir(directory);
  return found;
}

// Reads the manifest. Returns true if the folder is complete. See EnsureBuiltInDataset for errors.
absl::StatusOr<bool> CheckManifest(const std::string& folder, const Json& wanted) {
  const std::string path = absl::StrCat(folder, "/dataset.json");
  if (!FileExists(path)) {
    if (!HasEntries(folder)) return false;
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     " contains files but no dataset.json; choose an empty or new folder for the "
                     "built-in data set"));
  }
  DPIPE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, /*max_bytes=*/1 << 16));
  absl::StatusOr<Json> found = ParseJsonObject<Json>(text, path);
  const bool complete = found.ok() && found->value("complete", Json(false)) == Json(true);
  if (found.ok()) found->erase("complete");
  if (!found.ok() || *found != wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " contains another data set: ",
                     found.ok() ? found->dump() : std::string(found.status().message()),
                     ", wanted ", wanted.dump()));
  }
  return complete;
}

absl::Status WriteManifest(const std::string& folder, Json manifest, bool complete) {
  manifest["complete"] = complete;
  return WriteFileAtomically(absl::StrCat(folder, "/dataset.json"), manifest.dump(2) + "\n");
}

// Does not flush each file: thousands of flushes would take minutes on some disks. SyncFolder
// flushes them all before the manifest says "complete".
absl::Status WriteImageFile(const std::string& path, const std::string& content) {
  return WriteFileAtomically(path, content, Flush::kLater);
}

absl::Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("cannot open ", folder, ": ", strerror(errno)));
  }
  const int result = syncfs(descriptor);
  const int error = errno;
  close(descriptor);
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot flush ", folder, ": ", strerror(error)));
}

ImageSize SizeOf(const BuiltInDatasetOptions& options, int index) {
  constexpr uint32_t kSizes = 2;  // the scene is drawn from sample 0, its caption from 1
  RandomStream random(options.seed, index, kSizes, RandomPurpose::kDataset);
  const double aspect = std::pow(options.max_aspect, random.NextUniform());
  const int longer = static_cast<int>(std::lround(options.image_size * aspect));
  const bool is_wide = random.NextBelow(2) == 1;
  if (is_wide) return {longer, options.image_size};
  return {options.image_size, longer};
}

// Returns an image of one colour with `square` in the middle.
Image InTheMiddle(const Image& square, ImageSize size, const std::array<uint8_t, 3>& rgb) {
  Image image(size.width, size.height);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = rgb[i % 3];
  const int left = (size.width - square.width) / 2, top = (size.height - square.height) / 2;
  for (int y = 0; y < square.height; ++y) {
    std::copy_n(square.At(0, y), 3 * square.width, image.At(left, top + y));
  }
  return image;
}

absl::Status WriteScene(const std::string& path, const Scene& scene, int index,
                        const BuiltInDatasetOptions& options) {
  const Image image = InTheMiddle(RenderScene(scene, options.image_size), SizeOf(options, index),
                                  RgbOf(scene.background));
  const bool is_jpeg = index % kJpegEvery == kJpegEvery - 1;
  DPIPE_ASSIGN_OR_RETURN(std::string bytes, is_jpeg ? EncodeJpeg(image) : EncodePng(image));
  return WriteImageFile(path, bytes);
}

absl::Status WriteCondition(const std::string& path, const Scene& scene, int index,
                            const BuiltInDatasetOptions& options) {
  const Image outlines = InTheMiddle(RenderSceneEdges(scene, options.image_size),
                                     SizeOf(options, index), /*rgb=*/{0, 0, 0});
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes, EncodePng(outlines));
  return WriteImageFile(path, bytes);
}

// Writes the missing files of sample `index`. Returns its line of metadata.jsonl.
absl::StatusOr<std::string> WriteSample(const std::string& folder, int index,
                                        const BuiltInDatasetOptions& options) {
  const Scene scene = DrawScene(options.seed, index);
  const std::string name = FileNameOf(index);
  Json line = {{"file_name", name}, {"text", CaptionOfScene(scene, options.seed, index)}};
  const std::string path = absl::StrCat(folder, "/", name);
  if (!FileExists(path)) {
    DPIPE_RETURN_IF_ERROR(WriteScene(path, scene, index, options));
  }
  if (options.with_conditions) {
    line["conditioning_image"] = ConditionNameOf(index);
    const std::string condition_path = absl::StrCat(folder, "/", ConditionNameOf(index));
    if (!FileExists(condition_path)) {
      DPIPE_RETURN_IF_ERROR(WriteCondition(condition_path, scene, index, options));
    }
  }
  return line.dump() + "\n";
}

absl::Status CheckOptions(const BuiltInDatasetOptions& options) {
  if (options.count < 1 || options.count > 100000) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set: count ", options.count, " is not in [1, 100000]"));
  }
  if (options.image_size < 16 || options.image_size > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set: image size ", options.image_size, " is not in [16, 4096]"));
  }
  if (!(options.max_aspect >= 1 && options.max_aspect <= 4)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set: max aspect ", options.max_aspect, " is not in [1, 4]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EnsureBuiltInDataset(const std::string& folder, const BuiltInDatasetOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckOptions(options));
  const Json manifest = ManifestOf(options);
  DPIPE_ASSIGN_OR_RETURN(const bool complete, CheckManifest(folder, manifest));
  if (complete) return absl::OkStatus();
  DPIPE_RETURN_IF_ERROR(
      MakeFolder(options.with_conditions ? absl::StrCat(folder, "/conditioning") : folder));
  DPIPE_RETURN_IF_ERROR(WriteManifest(folder, manifest, /*complete=*/false));
  std::string metadata;
  for (int i = 0; i < options.count; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const std::string line, WriteSample(folder, i, options));
    metadata += line;
    const bool report = (i + 1) % kProgressEvery == 0 || i + 1 == options.count;
    if (report && options.progress) options.progress(i + 1, options.count);
  }
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/metadata.jsonl"), metadata));
  DPIPE_RETURN_IF_ERROR(SyncFolder(folder));
  return WriteManifest(folder, manifest, /*complete=*/true);
}

}  // namespace dpipe
