// Prints IDs, a line each, through Jedis: Jedis.java PORT. Goes on after errors, until it is killed.

import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisException;

class Jedis {
  public static void main(String[] args) throws InterruptedException {
    while (true) {
      try (var jedis = new redis.clients.jedis.Jedis("127.0.0.1", Integer.parseInt(args[0]))) {
        while (true) {
          List<String> made = new ArrayList<>();
          made.add(jedis.get("orders"));
          made.addAll(jedis.mget("orders", "orders", "orders"));
          Pipeline pipeline = jedis.pipelined();
          List<Response<String>> answers = new ArrayList<>();
          for (int i = 0; i < 50; i++) answers.add(pipeline.get("orders"));
          pipeline.sync();
          for (Response<String> answer : answers) made.add(answer.get());
          System.out.print(String.join("\n", made) + "\n");
          System.out.flush();
        }
      } catch (JedisException e) {
        Thread.sleep(50);
      }
    }
  }
}
