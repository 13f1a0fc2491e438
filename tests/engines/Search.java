import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.util.CharTokenizer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.PrefixQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.ByteBuffersDirectory;

/**
 * Lucene as an oracle: index documents, ask queries, print the best.
 *
 * <p>Arguments: documents, queries, k. A line of documents is an id and then FIELD=TEXT, with tabs
 * between; a field may come again. A line of queries is clauses with tabs between: a sign (space,
 * + or -) and then ways to match with | between, each FIELD^BOOST KIND WORDS, where KIND is term, phrase
 * or prefix and words have a space between. Fields whose name begins with "whole" are split at white
 * space only. For each query a line of ID:SCORE with spaces between comes out: the best k, and all that
 * tie with the last of them.
 */
public final class Search {
  private static final float K1 = 1.2f;
  private static final float B = 0.75f;
  /** No phrase reaches from one value of a field to the next. */
  private static final int GAP = 1;

  private static final class Words extends Analyzer {
    Words() {
      super(PER_FIELD_REUSE_STRATEGY);
    }

    @Override
    protected TokenStreamComponents createComponents(String field) {
      Tokenizer split =
          field.startsWith("whole")
              ? CharTokenizer.fromSeparatorCharPredicate(Character::isWhitespace)
              : CharTokenizer.fromTokenCharPredicate(Character::isLetterOrDigit);
      return new TokenStreamComponents(split, new LowerCaseFilter(split));
    }

    @Override
    public int getPositionIncrementGap(String field) {
      return GAP;
    }
  }

  public static void main(String[] arguments) throws IOException {
    int k = Integer.parseInt(arguments[2]);
    try (ByteBuffersDirectory folder = new ByteBuffersDirectory()) {
      index(folder, Path.of(arguments[0]));
      try (DirectoryReader reader = DirectoryReader.open(folder)) {
        IndexSearcher searcher = new IndexSearcher(reader);
        searcher.setSimilarity(new BM25Similarity(K1, B));
        StringBuilder out = new StringBuilder();
        for (String line : lines(Path.of(arguments[1]))) {
          out.append(best(searcher, query(line), k)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
      }
    }
  }

  private static List<String> lines(Path file) throws IOException {
    return Files.readAllLines(file, StandardCharsets.UTF_8);
  }

  private static void index(ByteBuffersDirectory folder, Path documents) throws IOException {
    IndexWriterConfig how = new IndexWriterConfig(new Words());
    how.setSimilarity(new BM25Similarity(K1, B));
    try (IndexWriter writer = new IndexWriter(folder, how)) {
      for (String line : lines(documents)) {
        String[] parts = line.split("\t");
        Document document = new Document();
        document.add(new StoredField("id", parts[0]));
        for (int at = 1; at < parts.length; at++) {
          int sign = parts[at].indexOf('=');
          String text = parts[at].substring(sign + 1);
          document.add(new TextField(parts[at].substring(0, sign), text, Field.Store.NO));
        }
        writer.addDocument(document);
      }
      writer.forceMerge(1);
    }
  }

  private static Query query(String line) {
    BooleanQuery.Builder all = new BooleanQuery.Builder();
    for (String clause : line.split("\t")) {
      Occur occur =
          switch (clause.charAt(0)) {
            case '+' -> Occur.MUST;
            case '-' -> Occur.MUST_NOT;
            default -> Occur.SHOULD;
          };
      BooleanQuery.Builder ways = new BooleanQuery.Builder();
      for (String way : clause.substring(1).split("\\|")) {
        ways.add(match(way.split(" ")), Occur.SHOULD);
      }
      all.add(ways.build(), occur);
    }
    return all.build();
  }

  private static Query match(String[] way) {
    String[] field = way[0].split("\\^");
    Query found =
        switch (way[1]) {
          case "term" -> new TermQuery(new Term(field[0], way[2]));
          case "prefix" -> new PrefixQuery(new Term(field[0], way[2]));
          case "phrase" -> {
            PhraseQuery.Builder phrase = new PhraseQuery.Builder();
            for (int at = 2; at < way.length; at++) {
              phrase.add(new Term(field[0], way[at]), at - 2);
            }
            yield phrase.build();
          }
          default -> throw new IllegalArgumentException(way[1]);
        };
    return new BoostQuery(found, Float.parseFloat(field[1]));
  }

  private static String best(IndexSearcher searcher, Query query, int k) throws IOException {
    ScoreDoc[] hits = searcher.search(query, searcher.getIndexReader().maxDoc()).scoreDocs;
    List<String> shown = new ArrayList<>();
    for (int at = 0; at < hits.length; at++) {
      if (at >= k && hits[at].score < hits[k - 1].score * (1 - 1e-6f)) {
        break;
      }
      shown.add(searcher.doc(hits[at].doc).get("id") + ":" + hits[at].score);
    }
    return String.join(" ", shown);
  }
}
