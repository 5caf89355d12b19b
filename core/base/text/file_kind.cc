#include "core/base/text/file_kind.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace dpipe {
namespace {

struct Signature {
  FileKind kind;
  size_t offset;
  absl::string_view bytes;
};

// Literals are split if a letter would otherwise continue a hexadecimal escape.
constexpr Signature kSignatures[] = {
    {FileKind::kJpeg, 0, "\xff\xd8\xff"},
    {FileKind::kPng, 0, "\x89PNG\r\n\x1a\n"},
    {FileKind::kGif, 0, "GIF87a"},
    {FileKind::kGif, 0, "GIF89a"},
    {FileKind::kTiff, 0, {"II*\0", 4}},
    {FileKind::kTiff, 0, {"MM\0*", 4}},
    {FileKind::kTiff, 0, {"II+\0", 4}},
    {FileKind::kTiff, 0, {"MM\0+", 4}},
    {FileKind::kJpegXl, 0, {"\0\0\0\x0cJXL \r\n\x87\n", 12}},
    {FileKind::kJpegXl, 0, "\xff\x0a"},
    {FileKind::kJpeg2000, 0, {"\0\0\0\x0cjP  \r\n\x87\n", 12}},
    {FileKind::kJpeg2000, 0, "\xff\x4f\xff\x51"},
    {FileKind::kIco, 0, {"\0\0\1\0", 4}},
    {FileKind::kPsd, 0, "8BPS"},
    {FileKind::kOpenExr, 0, "\x76\x2f\x31\x01"},
    {FileKind::kGzip, 0, "\x1f\x8b"},
    {FileKind::kBzip2, 4, "1AY&SY"},
    {FileKind::kXz, 0, {"\xfd\x37\x7a\x58\x5a\0", 6}},
    {FileKind::kZstd, 0, "\x28\xb5\x2f\xfd"},
    {FileKind::kZip, 0, "PK\x03\x04"},
    {FileKind::kZip, 0, "PK\x05\x06"},
    {FileKind::kSevenZip, 0, "7z\xbc\xaf\x27\x1c"},
    {FileKind::kRar, 0, "Rar!\x1a\x07"},
    {FileKind::kTar, 257, "ustar"},
    {FileKind::kPickle, 0, "\x80\x02"},
    {FileKind::kPickle, 0, "\x80\x03"},
    {FileKind::kPickle, 0, "\x80\x04"},
    {FileKind::kPickle, 0, "\x80\x05"},
    {FileKind::kGguf, 0, "GGUF"},
    {FileKind::kHdf5, 0, "\x89HDF\r\n\x1a\n"},
    {FileKind::kParquet, 0, "PAR1"},
    {FileKind::kArrow, 0, "ARROW1"},
    {FileKind::kNumpy, 0, "\x93NUMPY"},
    {FileKind::kVideo, 0, "\x1a\x45\xdf\xa3"},
    {FileKind::kPdf, 0, "%PDF-"},
};

bool HasAt(absl::string_view bytes, size_t offset, absl::string_view wanted) {
  return bytes.size() >= offset && absl::StartsWith(bytes.substr(offset), wanted);
}

uint64_t LittleEndian(absl::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

// Returns the kind of an ISO base media file (ISO/IEC 14496-12) by the major and compatible brands
// in its first box (HEIF: ISO/IEC 23008-12).
FileKind KindOfBrands(absl::string_view bytes) {
  const size_t box_bytes = static_cast<uint8_t>(bytes[2]) << 8 | static_cast<uint8_t>(bytes[3]);
  const absl::string_view brands = bytes.substr(0, std::max<size_t>(box_bytes, 8)).substr(8);
  const auto has_any = [&](std::initializer_list<const char*> wanted) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const char* brand) { return absl::StrContains(brands, brand); });
  };
  if (has_any({"avif", "avis"})) return FileKind::kAvif;
  if (has_any({"heic", "heix", "heim", "heis", "hevc", "mif1"})) return FileKind::kHeic;
  return FileKind::kVideo;
}

// Many texts begin with "BM", but the size of the header that follows has only a few valid values.
bool IsBmp(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, "BM") || bytes.size() < 18) return false;
  const uint64_t header_bytes = LittleEndian(bytes, 14, 4);
  return header_bytes == 12 || (header_bytes >= 40 && header_bytes <= 124);
}

// True for the JSON header's length followed by the header, which begins with a brace.
bool IsSafetensors(absl::string_view bytes) {
  return bytes.size() >= 9 && bytes[8] == '{' && LittleEndian(bytes, 0, 8) < uint64_t{1} << 32;
}

// torch.save writes NAME/data.pkl first; PyTorch's own readers look for that name.
bool IsPyTorchZip(absl::string_view bytes) {
  constexpr size_t kNameOffset = 30;
  if (bytes.size() < kNameOffset) return false;
  const absl::string_view name = bytes.substr(kNameOffset, LittleEndian(bytes, 26, 2));
  return absl::EndsWith(name, "/data.pkl") || absl::EndsWith(name, "/.format_version") ||
         absl::EndsWith(name, "/byteorder");
}

// True for text in any encoding that contains ASCII.
bool IsText(absl::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return absl::ascii_iscntrl(c) && !absl::ascii_isspace(c); });
}

FileKind KindOfText(absl::string_view bytes) {
  const std::string text = absl::AsciiStrToLower(
      absl::StripLeadingAsciiWhitespace(absl::StripPrefix(bytes, "\xef\xbb\xbf")));
  for (const char* start : {"version https://git-lfs.", "version https://hawser."}) {
    if (absl::StartsWith(text, start)) return FileKind::kGitLfsPointer;
  }
  if (absl::StartsWith(text, "<")) {
    for (const char* tag : {"<!doctype html", "<html", "<head", "<body"}) {
      if (absl::StrContains(text, tag)) return FileKind::kHtml;
    }
    if (absl::StrContains(text, "<svg")) return FileKind::kSvg;
    if (absl::StartsWith(text, "<?xml")) return FileKind::kXml;
  }
  if (!IsText(bytes)) return FileKind::kUnknown;
  return absl::StartsWith(text, "{") || absl::StartsWith(text, "[") ? FileKind::kJson
                                                                    : FileKind::kText;
}

struct KindText {
  const char* name;
  const char* advice;
};

constexpr char kDownloadAgain[] = "its content is missing; download or copy it again";

KindText TextOf(FileKind kind) {
  switch (kind) {
    case FileKind::kUnknown:
      return {"a file of an unknown format", ""};
    case FileKind::kEmpty:
      return {"an empty file", kDownloadAgain};
    case FileKind::kZeros:
      return {"a file that begins with zeros", kDownloadAgain};
    case FileKind::kGitLfsPointer:
      return {"a Git LFS pointer",
              "the file itself was not downloaded; run git lfs pull in its repository"};
    case FileKind::kHtml:
      return {"an HTML page", "a web page was downloaded instead; use the direct link to the file"};
    case FileKind::kJpeg:
      return {"a JPEG image", ""};
    case FileKind::kPng:
      return {"a PNG image", ""};
    case FileKind::kWebp:
      return {"a WebP image", ""};
    case FileKind::kGif:
      return {"a GIF image", ""};
    case FileKind::kBmp:
      return {"a BMP image", ""};
    case FileKind::kTiff:
      return {"a TIFF image", ""};
    case FileKind::kAvif:
      return {"an AVIF image", ""};
    case FileKind::kHeic:
      return {"a HEIC image", ""};
    case FileKind::kJpegXl:
      return {"a JPEG XL image", ""};
    case FileKind::kJpeg2000:
      return {"a JPEG 2000 image", ""};
    case FileKind::kIco:
      return {"an ICO image", ""};
    case FileKind::kPsd:
      return {"a Photoshop image", ""};
    case FileKind::kOpenExr:
      return {"an OpenEXR image", ""};
    case FileKind::kSvg:
      return {"an SVG image", ""};
    case FileKind::kGzip:
      return {"a file compressed by gzip", ""};
    case FileKind::kBzip2:
      return {"a file compressed by bzip2", ""};
    case FileKind::kXz:
      return {"a file compressed by xz", ""};
    case FileKind::kZstd:
      return {"a file compressed by zstd", ""};
    case FileKind::kZip:
      return {"a ZIP archive", ""};
    case FileKind::kSevenZip:
      return {"a 7-Zip archive", ""};
    case FileKind::kRar:
      return {"a RAR archive", ""};
    case FileKind::kTar:
      return {"a tar archive", ""};
    case FileKind::kSafetensors:
      return {"a safetensors file", ""};
    case FileKind::kPyTorchZip:
      return {"a PyTorch file (.bin, .pt, .ckpt)", ""};
    case FileKind::kPickle:
      return {"a Python pickle (possibly an old PyTorch file)", ""};
    case FileKind::kGguf:
      return {"a GGUF file", ""};
    case FileKind::kHdf5:
      return {"an HDF5 file", ""};
    case FileKind::kParquet:
      return {"a Parquet table", ""};
    case FileKind::kArrow:
      return {"an Arrow table", ""};
    case FileKind::kNumpy:
      return {"a NumPy array", ""};
    case FileKind::kVideo:
      return {"a video", ""};
    case FileKind::kPdf:
      return {"a PDF document", ""};
    case FileKind::kXml:
      return {"an XML document", ""};
    case FileKind::kJson:
      return {"JSON text", ""};
    case FileKind::kText:
      return {"plain text", ""};
  }
  return {"a file of an unknown format", ""};
}

}  // namespace

FileKind KindOfFile(absl::string_view first_bytes) {
  const absl::string_view bytes = first_bytes.substr(0, kFileKindBytes);
  if (bytes.empty()) return FileKind::kEmpty;
  for (const Signature& signature : kSignatures) {
    if (!HasAt(bytes, signature.offset, signature.bytes)) continue;
    const bool is_pytorch = signature.kind == FileKind::kZip && IsPyTorchZip(bytes);
    return is_pytorch ? FileKind::kPyTorchZip : signature.kind;
  }
  if (HasAt(bytes, 0, "RIFF") && HasAt(bytes, 8, "WEBP")) return FileKind::kWebp;
  if (HasAt(bytes, 0, "RIFF") && HasAt(bytes, 8, "AVI ")) return FileKind::kVideo;
  if (HasAt(bytes, 4, "ftyp") && bytes.size() >= 12) return KindOfBrands(bytes);
  if (IsBmp(bytes)) return FileKind::kBmp;
  if (IsSafetensors(bytes)) return FileKind::kSafetensors;
  if (bytes.find_first_not_of('\0') == absl::string_view::npos) return FileKind::kZeros;
  return KindOfText(bytes);
}

const char* FileKindName(FileKind kind) { return TextOf(kind).name; }

const char* FileKindAdvice(FileKind kind) { return TextOf(kind).advice; }

}  // namespace dpipe
