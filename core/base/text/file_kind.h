// Recognises a file's real kind from its first bytes, for messages about files that are not what
// their name says: a Git LFS pointer instead of an image, a web page instead of weights.
#ifndef DPIPE_CORE_BASE_TEXT_FILE_KIND_H_
#define DPIPE_CORE_BASE_TEXT_FILE_KIND_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dpipe {

enum class FileKind {
  kUnknown,
  // Files whose content is missing.
  kEmpty,
  kZeros,
  kGitLfsPointer,
  kHtml,
  // Images.
  kJpeg,
  kPng,
  kWebp,
  kGif,
  kBmp,
  kTiff,
  kAvif,
  kHeic,
  kJpegXl,
  kJpeg2000,
  kIco,
  kPsd,
  kOpenExr,
  kSvg,
  // Archives and compressed files.
  kGzip,
  kBzip2,
  kXz,
  kZstd,
  kZip,
  kSevenZip,
  kRar,
  kTar,
  // Weights.
  kSafetensors,
  kPyTorchZip,  // torch.save since PyTorch 1.6
  kPickle,      // torch.save before that
  kGguf,
  kHdf5,
  // Tables and arrays.
  kParquet,
  kArrow,
  kNumpy,
  // Others.
  kVideo,
  kPdf,
  kXml,
  kJson,
  kText,
};

// Maximum number of leading bytes that KindOfFile reads.
constexpr size_t kFileKindBytes = 1024;

// Returns the kind of a file that begins with `first_bytes` (the whole file, or kFileKindBytes).
// Checks signatures only, so a damaged file has a kind too.
FileKind KindOfFile(absl::string_view first_bytes);

// Returns the kind with its article: "a Git LFS pointer", "an AVIF image".
const char* FileKindName(FileKind kind);

// Returns advice for a file of this kind that was found where another was expected: "run git lfs
// pull ...", a clause without a full stop. Returns "" if the advice depends on the expected kind.
const char* FileKindAdvice(FileKind kind);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_FILE_KIND_H_
