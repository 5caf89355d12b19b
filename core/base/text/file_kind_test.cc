#include "core/base/text/file_kind.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

using std::string_literals::operator""s;

std::string NameOf(const std::string& bytes) { return FileKindName(KindOfFile(bytes)); }

// Returns the signature of a local file in a ZIP archive, its fixed fields, and its name.
std::string ZipOf(const std::string& name) {
  return "PK\x03\x04" + std::string(22, '\0') + static_cast<char>(name.size()) + "\0\0\0"s + name;
}

TEST(FileKindTest, SignaturesAreRecognised) {
  const std::vector<std::pair<std::string, FileKind>> files = {
      {"", FileKind::kEmpty},
      {std::string(600, '\0'), FileKind::kZeros},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
       FileKind::kGitLfsPointer},
      {"\n<!DOCTYPE html>\n<html lang=\"en\">", FileKind::kHtml},
      {"<!-- saved from a browser -->\n<HTML>", FileKind::kHtml},
      {"\xff\xd8\xff\xe0", FileKind::kJpeg},
      {"\x89PNG\r\n\x1a\n", FileKind::kPng},
      {"RIFF\x10\0\0\0WEBPVP8 "s, FileKind::kWebp},
      {"RIFF\x10\0\0\0AVI LIST"s, FileKind::kVideo},
      {"GIF89a\x01", FileKind::kGif},
      {"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"s, FileKind::kBmp},
      {"II*\0\x08"s, FileKind::kTiff},
      {"MM\0*\0"s, FileKind::kTiff},
      {"\0\0\0\x20"
       "ftypavif\0\0\0\0avifmif1"s,
       FileKind::kAvif},
      {"\0\0\0\x1c"
       "ftypmif1\0\0\0\0mif1avifmiaf"s,
       FileKind::kAvif},
      {"\0\0\0\x18"
       "ftypheic\0\0\0\0mif1heic"s,
       FileKind::kHeic},
      {"\0\0\0\x14"
       "ftypisom\0\0\0\0isomavif"s,  // beyond the box
       FileKind::kVideo},
      {"\0\0\0\x0cJXL \r\n\x87\n"s, FileKind::kJpegXl},
      {"\xff\x0a\x01", FileKind::kJpegXl},
      {"8BPS\0\1"s, FileKind::kPsd},
      {"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\">", FileKind::kSvg},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", FileKind::kXml},
      {"\x1f\x8b\x08", FileKind::kGzip},
      {"BZh91AY&SY", FileKind::kBzip2},
      {"\x28\xb5\x2f\xfd", FileKind::kZstd},
      {ZipOf("notes.txt"), FileKind::kZip},
      {ZipOf("archive/data.pkl"), FileKind::kPyTorchZip},
      {std::string(257, 'a') + "ustar", FileKind::kTar},
      {"\x80\x02\x8a\x0a", FileKind::kPickle},
      {"\x08\0\0\0\0\0\0\0{}      "s, FileKind::kSafetensors},
      {"GGUF\x03", FileKind::kGguf},
      {"PAR1\x15", FileKind::kParquet},
      {"%PDF-1.7", FileKind::kPdf},
      {"\xef\xbb\xbf{\"a\": 1}", FileKind::kJson},
      {"BM\n is a text", FileKind::kText},
      {"Entry not found", FileKind::kText},
      {"\1\2\3\4", FileKind::kUnknown},
  };
  for (const auto& [bytes, kind] : files) {
    EXPECT_EQ(NameOf(bytes), FileKindName(kind)) << bytes;
    EXPECT_EQ(KindOfFile(bytes), kind) << bytes;
  }
}

TEST(FileKindTest, TruncatedSignaturesAreNotReadPastTheirEnd) {
  for (const std::string& whole :
       {"\0\0\0\x20"
        "ftypavif"s,
        "BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"s, ZipOf("archive/data.pkl"),
        "RIFF\x10\0\0\0WEBP"s, "\x08\0\0\0\0\0\0\0{"s}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string cut = whole.substr(0, size);
      EXPECT_NE(KindOfFile(cut), KindOfFile(whole)) << size << " bytes of " << whole;
    }
  }
  // A name's length and a box's size may be wrong.
  EXPECT_EQ(KindOfFile("PK\x03\x04" + std::string(22, '\0') + "\xff\xff\0\0x"s), FileKind::kZip);
  EXPECT_EQ(KindOfFile("\xff\xff\xff\xff"
                       "ftypavif"),
            FileKind::kAvif);
  EXPECT_EQ(KindOfFile("\0\0\0\0ftypavif"s), FileKind::kVideo);
}

TEST(FileKindTest, MissingContentHasAdvice) {
  for (const FileKind kind :
       {FileKind::kEmpty, FileKind::kZeros, FileKind::kGitLfsPointer, FileKind::kHtml}) {
    EXPECT_STRNE(FileKindAdvice(kind), "") << FileKindName(kind);
  }
  EXPECT_STREQ(FileKindAdvice(FileKind::kGif), "");
}

}  // namespace
}  // namespace dpipe
