import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/** mongo-java-server in memory, on the port of 127.0.0.1 that is its argument. */
class Mongo {
  public static void main(String[] args) {
    // It names the protocol of MongoDB 4.2 by itself, which the driver of today refuses.
    MongoVersion newer = new MongoVersion() {
      public List<Integer> getVersionArray() {
        return List.of(5, 0, 0);
      }

      public int getWireVersion() {
        return 13;
      }
    };
    new MongoServer(new MemoryBackend().version(newer)).bind("127.0.0.1", Integer.parseInt(args[0]));
  }
}
